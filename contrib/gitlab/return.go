package gitlab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// The defaults of GitLab's reliable fetch.
const (
	// Lifespan is how long a heartbeat lasts. Ruby processes send one three times in that time.
	Lifespan = time.Minute
	// Interruptions is the number of interruptions at which a job goes to the dead set. In Ruby, the option
	// max_retries_after_interruption changes it.
	Interruptions = 3
)

// Config configures Look and Return.
type Config struct {
	Client driver.Client
	// Prefix is the prefix of all keys, without its colon: Ruby's namespace. Empty for none.
	Prefix string
	// DeadLimits are the limits of the dead set: the same as those of Belay's workers. Default: the defaults of
	// the workers.
	DeadLimits lua.DeadLimits
	// Doubt is how long to wait for a heartbeat of a process that has none at the first look. Ruby processes
	// that are alive send one every 20 seconds. Default: Lifespan, which is safe. A negative time waits for
	// none: use it only if no Ruby process is alive.
	Doubt time.Duration
	// Interruptions is the number of interruptions at which a job goes to the dead set. It is
	// max_retries_after_interruption in Ruby. Default: the constant Interruptions. A negative number means that
	// a job always goes back to its queue.
	Interruptions int
	// PayloadLimit is the limit of the workers in bytes: larger jobs go to the dead set. Default:
	// job.DefaultPayloadLimit.
	PayloadLimit int
	// Log gets a line for each job that goes to the dead set. Default: none.
	Log *slog.Logger
	// Found, if set, is called with the lists that Return finds at its first look.
	Found func(Lists)
}

// Lists describes the working lists of GitLab's reliable fetch.
type Lists struct {
	Lists []List `json:"lists"`
	// Jobs counts the jobs in lists of processes without a heartbeat.
	Jobs int `json:"jobs"`
	// Interrupted is the size of GitLab's set of jobs that were interrupted too often. Return does not touch
	// it.
	Interrupted int `json:"interrupted"`
}

// A List is the jobs of one queue that one Ruby process has taken.
type List struct {
	Queue   string `json:"queue"`
	Process string `json:"process"`
	Jobs    int    `json:"jobs"`
	State   State  `json:"state"`
	// Key is the name of the list.
	Key string `json:"key"`
}

// State is the state of the process of a list.
type State string

// The states of a process.
const (
	// StateAlive means that it has a heartbeat, and StateLapsed that it has none.
	StateAlive  State = "alive"
	StateLapsed State = "lapsed"
	// StateUnclear means that the name of the list may mean several processes, or none.
	StateUnclear State = "unclear"
)

// Result counts what Return did.
type Result struct {
	// Recovered counts jobs that left the lists of dead processes, and Dead those of them that went to the
	// dead set.
	Recovered int `json:"recovered"`
	Dead      int `json:"dead"`
	// Lists counts the lists that were emptied. Alive counts lists whose process had a heartbeat at either
	// look, and Unclear those whose name is ambiguous.
	Lists   int `json:"lists"`
	Alive   int `json:"alive"`
	Unclear int `json:"unclear"`
	// Held counts the jobs that were left in the lists of processes with a heartbeat. The heartbeat of a killed
	// process lasts for Lifespan.
	Held int `json:"held"`
	// Interrupted is as in Lists.
	Interrupted int `json:"interrupted"`
}

// pause is the time between two calls of sight while Return waits.
const pause = time.Second

// Look finds the working lists of GitLab's reliable fetch. It reads the names of all keys, some hundreds in a
// call, because there is no index of these lists. It changes nothing.
func Look(ctx context.Context, cfg Config) (Lists, error) {
	look, _, err := newRecoverer(cfg).all(ctx)
	return look, err
}

// Return moves the jobs of dead Ruby processes with GitLab's reliable fetch back to their queues: to the heads,
// in the order in which they were taken. It takes as long as Doubt, unless there are no such jobs. A process
// that has a heartbeat at either look keeps its jobs. After an error, Return can be called again.
func Return(ctx context.Context, cfg Config) (result Result, err error) {
	r := newRecoverer(cfg)
	if _, err = r.sight(ctx); err != nil {
		return result, err
	}
	look, lists, err := r.all(ctx)
	if err != nil {
		return result, err
	}
	result.Interrupted = look.Interrupted
	if cfg.Found != nil {
		cfg.Found(look)
	}
	var lapsed []found
	for _, item := range lists {
		switch {
		case item.unclear:
			result.Unclear++
		case item.alive:
			result.Alive++
			result.Held += item.jobs
		default:
			lapsed = append(lapsed, item)
		}
	}
	if len(lapsed) == 0 {
		return result, nil
	}
	if err = r.doubt(ctx); err != nil {
		return result, err
	}
	var errs error
	for _, item := range lapsed {
		done, err := r.recover(ctx, item.list)
		result.Recovered, result.Dead = result.Recovered+done.jobs, result.Dead+done.dead
		switch {
		case driver.Outage(err) || ctx.Err() != nil:
			return result, errors.Join(errs, err)
		case err != nil:
			errs = errors.Join(errs, err) // one list must not stop the recovery of the others
		case done.alive:
			result.Alive++
			result.Held += item.jobs - done.jobs
		default:
			result.Lists++
		}
	}
	return result, errs
}

// all returns the lists of all pages. SCAN may return a name twice.
func (r *recoverer) all(ctx context.Context) (look Lists, lists []found, err error) {
	look.Lists = []List{}
	interrupted := r.cfg.Client.Do(ctx, driver.Command("ZCARD", r.keys.interrupted()))[0]
	if driver.Outage(interrupted.Err) {
		return look, nil, fmt.Errorf("read GitLab's interrupted jobs: %w", interrupted.Err)
	}
	size, _ := interrupted.Value.(int64)
	look.Interrupted = int(size)
	known := make(map[string]bool)
	for last := false; !last; {
		var page []found
		if page, last, err = r.page(ctx); err != nil {
			return look, nil, err
		}
		for _, item := range page {
			if known[item.key] {
				continue
			}
			known[item.key] = true
			lists = append(lists, item)
			shown := List{Queue: item.queue, Process: item.process, Jobs: item.jobs, State: StateLapsed, Key: item.key}
			switch {
			case item.unclear:
				shown.State = StateUnclear
			case item.alive:
				shown.State = StateAlive
			default:
				look.Jobs += item.jobs
			}
			look.Lists = append(look.Lists, shown)
		}
	}
	return look, lists, nil
}

// doubt waits until Redis has been reachable for Doubt without an interruption. After a restart or an outage
// the time begins anew, because the Ruby processes may have been unable to send heartbeats.
func (r *recoverer) doubt(ctx context.Context) error {
	for since := time.Now(); time.Since(since) < r.cfg.Doubt; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for heartbeats: %w", context.Cause(ctx))
		case <-time.After(min(pause, max(r.cfg.Doubt-time.Since(since), 0))):
		}
		unbroken, err := r.sight(ctx)
		if err != nil && !driver.Outage(err) {
			return err
		}
		if err != nil || !unbroken {
			since = time.Now()
		}
	}
	return nil
}
