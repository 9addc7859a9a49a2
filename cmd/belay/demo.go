package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/launcher/service"
)

const demoHelp = `Kills workers with SIGKILL while they run jobs, and shows that no job is lost.

It starts a Redis of its own, in memory, and real worker processes. With --redis it uses that Redis instead (7.0 or newer),
under a prefix of its own, which it deletes at the end; it ignores the URL in the environment. The jobs take a few hundredths
of a second. Each worker reports the start and the end of each job through a pipe. Workers are killed while these reports
show that they run jobs, and are replaced. The result is counted from these reports, not from Redis' data.

The workers' heartbeats are faster than by default, so the jobs of a killed worker run again sooner than in production.`

type demoFlags struct{ jobs, workers, kills int }

const (
	// demoConcurrency is how many jobs each worker runs at once: few enough to list the jobs of a kill one by
	// one, enough to have some running at any moment.
	demoConcurrency = 5
	// The heartbeats are faster than a real worker's, so that the death of a worker is detected in one or two
	// seconds. With default settings it is two and a half, and ten for a worker that dies before it is watched,
	// as those of a demonstration of some seconds may.
	demoBeat = 200 * time.Millisecond
	demoTTL  = time.Second
	// demoLimit ends the demonstration with default settings, with time left to clean up within 20 s.
	demoLimit = 17 * time.Second
	// demoTick is how often the demonstration checks what is due. liveEvery and lineEvery are how often it
	// reports: on a terminal as often as people can read, elsewhere a line every few seconds.
	demoTick  = 10 * time.Millisecond
	liveEvery = 100 * time.Millisecond
	lineEvery = 2 * time.Second
)

func newDemo(at *redisFlags) *cobra.Command {
	var flags demoFlags
	cmd := withJSON(&cobra.Command{
		Use:   "demo",
		Short: "Watch workers being killed without losing a job",
		Long:  demoHelp,
		Example: `  belay demo
  belay demo --jobs 5000 --workers 6 --kills 10
  belay demo --json --redis redis://127.0.0.1:6379/0 --client rueidis`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.jobs < 1 || flags.workers < 1 || flags.kills < 0 {
				return usage("--jobs and --workers must be at least 1, --kills at least 0")
			}
			return runDemo(cmd, at, flags)
		},
	})
	set := cmd.Flags()
	set.IntVar(&flags.jobs, "jobs", 1500, "number of jobs")
	set.IntVar(&flags.workers, "workers", 3, "number of worker processes at a time")
	set.IntVar(&flags.kills, "kills", 3, "number of workers to kill")
	return cmd
}

// limit returns how long the demonstration may take.
func (f demoFlags) limit() time.Duration {
	perSecond := float64(f.workers*demoConcurrency) / demoJobTime.Seconds()
	expected := time.Duration(float64(f.jobs)/perSecond*float64(time.Second)) + time.Duration(f.kills)*2*demoTTL
	if expected <= demoLimit*2/3 {
		return demoLimit
	}
	return 3*expected + demoLimit
}

func runDemo(cmd *cobra.Command, at *redisFlags, flags demoFlags) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	service.OutliveReaders() // belay demo | head -1 must clean up too
	d := &demonstration{flags: flags, out: cmd.OutOrStdout(), fleet: newDemoFleet()}
	defer d.fleet.spawner.close()
	if asJSON(cmd) {
		d.out = cmd.ErrOrStderr()
	}
	d.terminal = isTerminal(d.out)
	err := d.run(ctx, at)
	if ctx.Err() != nil {
		return errors.New("interrupted: its workers are stopped, and there is no result")
	}
	r := d.fleet.report
	if err == nil && asJSON(cmd) {
		err = printJSON(cmd, r)
	}
	if err != nil {
		return err
	}
	d.say("\nenqueued   %6d\ndone       %6d\nreruns     %6d\nkills      %6d\nlost       %6d\n",
		r.Enqueued, r.Done, r.Reruns, r.Kills, r.Lost)
	d.say("%s running in workers that were killed. The other workers saw that their subscriptions or\nheartbeats had ended, "+
		"returned their jobs to the queue and ran them again: at least once, and none lost.\n"+
		"(Counted from the workers' own reports, in %.1f s.)", plural(r.Interrupted, "1 job was", "%d jobs were"), r.Seconds)
	switch {
	case r.Lost > 0:
		return fmt.Errorf("%d jobs were lost", r.Lost)
	case r.Unfinished > 0:
		return fmt.Errorf("%d jobs were not done in time: they are safe in Redis, but this machine is too busy to show more", r.Unfinished)
	}
	return nil
}

// A demonstration is one run of belay demo.
type demonstration struct {
	flags    demoFlags
	fleet    *demoFleet
	out      io.Writer
	terminal bool
	shownAt  time.Time
}

// A report is the result.
type report struct {
	Enqueued    int     `json:"enqueued"`
	Done        int     `json:"done"`
	Reruns      int     `json:"reruns"`
	Kills       int     `json:"kills"`
	Interrupted int     `json:"interrupted"`
	Unfinished  int     `json:"unfinished"`
	Lost        int     `json:"lost"`
	Workers     int     `json:"workers"`
	Seconds     float64 `json:"seconds"`
	Redis       string  `json:"redis"`
}

// run starts everything, waits for the jobs, and cleans up.
func (d *demonstration) run(ctx context.Context, at *redisFlags) error {
	redis, err := openDemoRedis(ctx, at)
	if err != nil {
		return err
	}
	defer redis.close()
	d.say("%d jobs on %s, %d worker processes, %d of which will be killed while they work",
		d.flags.jobs, redis, d.flags.workers, d.flags.kills)
	r := &d.fleet.report
	r.Enqueued, r.Workers, r.Redis = d.flags.jobs, d.flags.workers, redis.name
	begun := time.Now()
	if err := redis.enqueue(ctx, d.flags.jobs); err != nil {
		return err
	}
	defer d.fleet.stop() // before Redis is closed, and its keys are deleted
	limited, cancel := context.WithTimeout(ctx, d.flags.limit())
	defer cancel()
	if err := d.await(limited, redis); err != nil {
		return err
	}
	r.Seconds = time.Since(begun).Seconds()
	d.fleet.stop()
	return redis.settle(r)
}

// await keeps the fleet complete and kills workers, until every job is done or ctx ends.
func (d *demonstration) await(ctx context.Context, redis *demoRedis) error {
	for r := &d.fleet.report; ctx.Err() == nil && r.Done < r.Enqueued; {
		if err := d.fleet.fill(d.flags.workers, redis); err != nil {
			return err
		}
		d.show()
		// The same number of jobs runs before the first kill as after the last.
		if r.Kills < d.flags.kills && r.Done >= r.Enqueued*(r.Kills+1)/(d.flags.kills+1) {
			if p, running := d.fleet.kill(); running > 0 {
				d.say("SIGKILL to %v with %s running", p, plural(running, "1 job", "%d jobs"))
			}
		}
		tick, cancel := context.WithTimeout(ctx, demoTick)
		d.fleet.listen(tick, nil)
		cancel()
		for _, p := range d.fleet.recovered() {
			d.say("%s of %v started again %.1f s after its end", plural(p.interrupted, "the job", "the %d jobs"), p, time.Since(p.killedAt).Seconds())
		}
	}
	return nil
}

// say prints a line. If the terminal was closed, the demonstration continues.
func (d *demonstration) say(format string, args ...any) {
	_, _ = fmt.Fprintf(d.out, word(d.terminal, clearLine)+format+"\n", args...)
}

// show prints the progress, on a terminal in one line that changes.
func (d *demonstration) show() {
	every, end := lineEvery, "\n"
	if d.terminal {
		every, end = liveEvery, ""
	}
	if time.Since(d.shownAt) < every {
		return
	}
	d.shownAt = time.Now()
	r := d.fleet.report
	_, _ = fmt.Fprintf(d.out, "%s%6d of %d done, %d workers, %d killed, %d reruns%s", word(d.terminal, clearLine),
		r.Done, r.Enqueued, len(d.fleet.alive), r.Kills, r.Reruns, end)
}

// clearLine moves the cursor of a terminal to the start of its line, which may hold the count, and clears it.
const clearLine = "\r\x1b[K"
