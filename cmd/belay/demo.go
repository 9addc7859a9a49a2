package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/launcher/service"
)

const demoHelp = `Shows the promise: workers are killed by SIGKILL while they run jobs, and no job is lost.

It starts a Redis of its own, in memory (or uses the one of --redis: 7.0 or newer, under a prefix of its own that is
cleaned up; the environment's URL does not count here), and real worker processes. They run jobs of a few hundredths of
a second; each writes a line to a file when it starts and when it ends. Workers are killed while, by these files, they
have jobs running, and are replaced. In the end the ledger is counted from the files: what the workers did, not what
Redis says.

With --json standard output is exactly one JSON object, all else goes to standard error:
  {"enqueued","done","reruns","kills","interrupted","unfinished","lost","workers","seconds","redis"}
reruns are runs beyond the first of a job, interrupted the jobs that were running in killed workers, unfinished those
that still lay in Redis when time was up, lost those that are neither done nor there. It takes 20 s at most, unless it
is given more to do.

Exit status: 0 when every job was done; 1 when one was not, or it could not be shown; 2 for a wrong command line.`

// demoFlags are what the demonstration may be told.
type demoFlags struct {
	jobs, workers, kills int
	asJSON               bool
}

const (
	// demoConcurrency is how many jobs each worker of the demonstration runs at once: few enough to see a kill's jobs
	// one by one, enough to have some running at any moment.
	demoConcurrency = 5
	// The demonstration's beats are faster than a real worker's: nobody wants to watch for a quarter of a minute how a
	// killed worker is not missed yet.
	demoBeat = 200 * time.Millisecond
	demoTTL  = time.Second
	// demoLimit is when the demonstration as it comes gives up, with room to clean up within 20 s.
	demoLimit = 17 * time.Second
	// demoLook is how often the files are read.
	demoLook = 10 * time.Millisecond
)

func newDemo(at *redisFlags) *cobra.Command {
	var flags demoFlags
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "See workers killed and nothing lost",
		Long:    demoHelp,
		Example: "  belay demo\n  belay demo --jobs 5000 --workers 6 --kills 10\n  belay demo --json --redis redis://127.0.0.1:6379/0 --client rueidis",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.jobs < 1 || flags.workers < 1 || flags.kills < 0 {
				return usage("--jobs and --workers are at least 1, --kills at least 0")
			}
			return runDemo(cmd, at, flags)
		},
	}
	set := cmd.Flags()
	set.IntVar(&flags.jobs, "jobs", 1500, "how many jobs")
	set.IntVar(&flags.workers, "workers", 3, "how many worker processes at a time")
	set.IntVar(&flags.kills, "kills", 3, "how many of them to kill")
	set.BoolVar(&flags.asJSON, "json", false, "print the ledger as one JSON object")
	return cmd
}

// limit is how long the demonstration may take.
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
	service.OutliveReaders() // belay demo | head -1 must not leave anything behind
	screen := newScreen(cmd.OutOrStdout(), cmd.ErrOrStderr(), flags.asJSON)
	report, err := demonstrate(ctx, at, flags, screen)
	if ctx.Err() != nil {
		return errors.New("interrupted: its workers and files are gone, and nothing is shown")
	}
	if err != nil {
		return err
	}
	if flags.asJSON {
		if err := printJSON(cmd.OutOrStdout(), report); err != nil {
			return err
		}
	}
	screen.ledger(report)
	switch {
	case report.Lost > 0:
		return fmt.Errorf("%d jobs were lost", report.Lost)
	case report.Unfinished > 0:
		return fmt.Errorf("%d jobs were not done in time: they are safe in Redis, but this machine is too busy to show more", report.Unfinished)
	}
	return nil
}

// demonstrate makes everything, lets it run, and leaves nothing behind.
func demonstrate(ctx context.Context, at *redisFlags, flags demoFlags, screen *screen) (r report, err error) {
	redis, err := openStage(ctx, at)
	if err != nil {
		return r, err
	}
	defer redis.close()
	screen.begin(flags, redis)
	begun := time.Now()
	if err := redis.enqueue(ctx, flags.jobs); err != nil {
		return r, err
	}
	crew := newCrew(redis)
	defer crew.close()
	show := &show{flags: flags, crew: crew, ledger: newLedger(), screen: screen}
	limited, cancel := context.WithTimeout(ctx, flags.limit())
	defer cancel()
	if err := show.run(limited); err != nil {
		return r, err
	}
	seconds := time.Since(begun).Seconds()
	crew.stop()
	if err := show.look(); err != nil {
		return r, err
	}
	r = show.report()
	r.Seconds, r.Redis = seconds, redis.name
	return r, redis.settle(&r)
}
