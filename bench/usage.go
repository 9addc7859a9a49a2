package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/driver"
)

// A usage is what Redis had done, and what it held, at an instant.
type usage struct {
	at time.Time
	// cpu is the processor time, user and system, and cpus that of each server.
	cpu  time.Duration
	cpus []time.Duration
	// calls are script calls; trips are how often Redis had read from its clients, but for GET, which asks how
	// far a drain has come: a pipeline that is not too large is one read.
	calls, trips, commands, connections, memory float64
}

// usage looks at Redis. With several servers it is the sum.
func (b *bench) usage(ctx context.Context) (sum usage, err error) {
	for _, look := range b.looks() {
		u, err := usageOf(ctx, look)
		if err != nil {
			return sum, err
		}
		sum.at = u.at
		sum.cpu, sum.cpus = sum.cpu+u.cpu, append(sum.cpus, u.cpu)
		sum.calls, sum.trips, sum.commands = sum.calls+u.calls, sum.trips+u.trips, sum.commands+u.commands
		sum.connections, sum.memory = sum.connections+u.connections, sum.memory+u.memory
	}
	return sum, nil
}

func usageOf(ctx context.Context, look driver.Client) (u usage, err error) {
	text, err := infoOf(ctx, look)
	if err != nil {
		return u, err
	}
	number := func(field string) float64 {
		value, _ := fieldOf(text, field)
		n, parseErr := strconv.ParseFloat(value, 64)
		if parseErr != nil {
			err = errors.Join(err, fmt.Errorf("the INFO of this Redis has no number %s", field))
		}
		return n
	}
	u.at = time.Now()
	u.cpu = time.Duration((number("used_cpu_sys") + number("used_cpu_user")) * float64(time.Second))
	u.calls, u.trips = callsOf(text, "evalsha"), number("total_reads_processed")-callsOf(text, "get")
	u.commands, u.connections, u.memory = number("total_commands_processed"), number("connected_clients"), number("used_memory")
	return u, err
}

// info is all that Redis tells about itself.
func (b *bench) info(ctx context.Context) (string, error) { return infoOf(ctx, b.look) }

func infoOf(ctx context.Context, look driver.Client) (string, error) {
	reply := look.Do(ctx, driver.Command("INFO", "everything"))[0]
	if reply.Err != nil {
		return "", fmt.Errorf("ask Redis for INFO: %w", reply.Err)
	}
	text, _ := reply.Value.(string)
	return text, nil
}

// fieldOf reads a field from the text of INFO.
func fieldOf(text, field string) (string, bool) {
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == field {
			return value, true
		}
	}
	return "", false
}

// callsOf reads how often a command was called from the text of INFO; one never called is not in it.
func callsOf(text, command string) float64 {
	value, _ := fieldOf(text, "cmdstat_"+command)
	digits, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
	calls, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0
	}
	return calls
}

// A found is what one run of a subject gave: its last event, and Redis' usage at each event, of which there is
// none where the store is not Redis.
type found struct {
	subject.Event
	redis map[string]usage
}

// run runs a task, from ready to done. The subject waits, or has just ended, while Redis is looked at.
func (b *bench) run(ctx context.Context, c contender, task subject.Task) (f found, err error) {
	f.redis = map[string]usage{}
	f.Event, err = b.do(ctx, c, task, func(e subject.Event) (err error) {
		if !c.postgres {
			f.redis[e.Event], err = b.usage(ctx)
		}
		return err
	})
	return f, err
}

// us is the processor time that a job took of Redis between two events, in microseconds.
func (f found) us(from, to string, jobs float64) float64 {
	return float64((f.redis[to].cpu - f.redis[from].cpu).Nanoseconds()) / 1000 / jobs
}

// most is us of the server that took most of it, if each has had an equal part of the jobs.
func (f found) most(from, to string, jobs float64) (most float64) {
	for n, after := range f.redis[to].cpus {
		took := float64((after - f.redis[from].cpus[n]).Nanoseconds()) / 1000
		most = max(most, took*float64(len(f.redis[to].cpus))/jobs)
	}
	return most
}

// share is Redis' share of a core between two events, in percent.
func (f found) share(from, to string) float64 {
	return 100 * (f.redis[to].cpu - f.redis[from].cpu).Seconds() / f.redis[to].at.Sub(f.redis[from].at).Seconds()
}

// perJob are the figures of one job of a drain, by metric. Script calls are those of Belay: what another system
// calls scripts may do any part of the work.
func (f found) perJob(c contender, task subject.Task) map[string]float64 {
	jobs := float64(task.Jobs)
	figures := map[string]float64{"jobs/s": jobs / f.Seconds}
	if !c.postgres {
		figures["redis push"] = f.us(subject.Ready, subject.Pushed, jobs)
		figures["redis run"] = f.us(subject.Pushed, subject.Done, jobs)
	}
	if c.kind != report.Peer {
		figures["script calls"] = (f.redis[subject.Done].calls - f.redis[subject.Pushed].calls) / jobs
		figures["round trips"] = (f.redis[subject.Done].trips - f.redis[subject.Pushed].trips) / jobs
	}
	if allocations, known := f.Extra["allocs_per_job"]; known {
		figures["allocations"] = allocations
	}
	return figures
}

// turn is a contender's run of a task in a case. tell returns its figures, by metric, and a line of progress.
func (b *bench) turn(r *report.Result, c contender, which string, task subject.Task, tell func(f found) (map[string]float64, string)) turn {
	return turn{who: c, what: which, run: func(ctx context.Context) (string, error) {
		f, err := b.run(ctx, c, task)
		if err != nil {
			return "", err
		}
		figures, text := tell(f)
		settings := f.Settings
		if task.Jobs > 0 {
			settings += fmt.Sprintf("; %s jobs", report.Count(task.Jobs))
		}
		c.tell(r, which, settings, figures)
		return text, nil
	}}
}

// rate is a line of progress.
func rate(figures map[string]float64, metric string) (map[string]float64, string) {
	return figures, report.Figure(figures[metric]) + " jobs/s"
}
