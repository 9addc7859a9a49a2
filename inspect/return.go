package inspect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/janitor"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// Returned counts the jobs that Return put back into queues.
type Returned struct {
	// Recovered counts jobs that dead processes held, and Dead those of them that went to the dead set
	// instead, because no worker could run them.
	Recovered int `json:"recovered"`
	Dead      int `json:"dead"`
	// Quarantined counts jobs that had been running in too many crashes.
	Quarantined int `json:"quarantined"`
	// Waiting counts jobs that had been waiting at the gates of limits.
	Waiting int `json:"waiting"`
}

// ErrWorkersLive is the error of Return while a process of Belay is alive.
var ErrWorkersLive = errors.New("workers of Belay are alive: stop them first; a killed worker counts as alive until its TTL has passed")

const (
	// returnBeat is the time between two looks of Return at the processes of Belay. returnTTL is the gap in
	// its looks, doubled, after which it trusts none of the earlier ones.
	returnBeat = 200 * time.Millisecond
	returnTTL  = 6 * time.Second
	// returnRound bounds a call without jobs.
	returnRound = 2 * time.Second
)

// Return puts the jobs that only workers of Belay can recover into plain queues: the jobs that dead processes
// hold, at the heads of their queues, and quarantined jobs and those that wait at gates, at the backs. Use it
// to go back to Sidekiq's own workers. Each job moves in one step, as when a worker recovers it.
//
// It returns ErrWorkersLive, with their identities, while a process of Belay is alive. It declares a process
// dead by the rule that workers follow, and so takes as long as the TTL of the dead processes. It goes on
// until no process is left, or ctx ends. Log gets a line for each job that goes to the dead set.
func (i *Inspector) Return(ctx context.Context, payloadLimit int, log *slog.Logger) (Returned, error) {
	var returned Returned
	queues := make(map[string]bool)
	me := job.NewJID()
	recoverer := janitor.New(janitor.Config{
		Client: i.driver, Keys: i.keys, Log: log, Beat: returnBeat, TTL: returnTTL, Round: returnRound, Largest: payloadLimit + job.PayloadSlack,
		Crashes: retry.CrashPolicy{Most: math.MaxInt}, // Ruby has no quarantine
		Recovered: func(_ string, lists []lua.Orphans) {
			for _, list := range lists {
				queues[list.Queue] = true
				for _, orphan := range list.Entries {
					returned.Recovered++
					if orphan.Home == lua.HomeDead {
						returned.Dead++
					}
				}
			}
		},
	})
	if err := i.recoverAll(ctx, recoverer, me); err != nil {
		return returned, fmt.Errorf("return jobs: %w", err)
	}
	gates, err := i.WaitersOf(ctx, "")
	if err != nil {
		return returned, err
	}
	for _, gate := range gates {
		counts, err := i.Act(ctx, Task{Home: gate, Action: Move, Selection: Selection{All: true}}, nil)
		returned.Waiting += counts.Moved
		if err != nil {
			return returned, err
		}
	}
	names, err := i.QueueNames(ctx)
	if err != nil {
		return returned, err
	}
	for _, name := range names {
		queues[name] = true
	}
	for _, queue := range slices.Sorted(maps.Keys(queues)) {
		counts, err := i.Act(ctx, Task{Home: Quarantined(queue), Action: Retry, Selection: Selection{All: true, PayloadLimit: payloadLimit}}, nil)
		returned.Quarantined += counts.Moved
		if err != nil {
			return returned, err
		}
	}
	return returned, nil
}

// recoverAll lets a janitor recover processes until none is left, and then search the lists of those that
// ended earlier.
func (i *Inspector) recoverAll(ctx context.Context, recoverer *janitor.Janitor, me string) error {
	for {
		left, err := i.show(ctx, recoverer)
		if err != nil {
			return err
		}
		if err = recoverer.Pass(ctx, me); err != nil {
			return err
		}
		if left == 0 {
			if _, err = recoverer.Sweep(ctx, me); err != nil {
				return err
			}
			// A process that stopped may have the lease of the sweep for some seconds.
			holder := i.driver.Do(ctx, driver.Command("GET", i.keys.Sweeper()))[0]
			if holder.Value == me && recoverer.SweptAll() {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes are left: %w", left, context.Cause(ctx))
		case <-time.After(returnBeat):
		}
	}
}

// show tells a janitor which processes have lapsed, and returns how many are left to recover. One that is
// alive is an error, which names the first few.
func (i *Inspector) show(ctx context.Context, recoverer *janitor.Janitor) (left int, err error) {
	sent := lua.SinceBoot()
	lapsed := i.keys.Lapsed(0)
	replies := i.driver.Do(ctx, lua.AskTime, lapsed.Call, driver.Command("ZCARD", i.keys.Alive()))
	took := lua.SinceBoot() - sent
	now, err := lua.TimeOf(replies[0])
	if err != nil {
		return 0, err
	}
	names, err := lapsed.Read(replies[1])
	if err != nil {
		return 0, err
	}
	var r reading
	left = int(r.number("the living processes", replies[2]))
	alive := r.texts("the living processes",
		i.driver.Do(ctx, driver.Command("ZRANGEBYSCORE", i.keys.Alive(), "("+millisOf(now), "+inf", "LIMIT", "0", strconv.Itoa(maxProblems)))[0])
	if r.err != nil || len(r.refused) > 0 {
		return 0, errors.Join(append(r.refused, r.err)...)
	}
	if len(alive) > 0 {
		return left, fmt.Errorf("%w: %s", ErrWorkersLive, strings.Join(alive, ", "))
	}
	recoverer.Look(lua.HeartbeatReply{State: lua.StateAlive, Now: now, Lapsed: names, More: len(names) >= lua.MaxItems}, sent, took)
	return left, nil
}
