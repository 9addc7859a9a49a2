package belaytest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// Drain runs all jobs that are due, and the jobs that they push, until none is due. It returns the runs in
// the order in which they started; jobs of one queue run oldest first. A failed run fails the test, unless
// OnFailure was called. Drain does not run its retry, which is not due yet.
func (k *Kit) Drain() []Run {
	k.t.Helper()
	return k.runWithin(0)
}

// Advance drains, and then runs the scheduled jobs, retries and snoozed jobs that come due within the time d,
// in the order in which they come due. It changes no clock, neither Redis' nor the program's: it makes
// waiting jobs due earlier by d. So RetryFor, ExpiresIn, Deadline and the TTL of a lock do not run out, and
// no periodic job fires. To advance all clocks, sleep in a bubble of testing/synctest and then Drain; a
// server that is Run in the bubble also fires periodic jobs.
func (k *Kit) Advance(d time.Duration) []Run {
	k.t.Helper()
	return k.runWithin(d)
}

// DrainAll advances until no job waits: scheduled jobs run, and failed jobs run again until they are dead. A
// job that snoozes or schedules itself without end fails the test.
func (k *Kit) DrainAll() []Run {
	k.t.Helper()
	return k.runWithin(forever)
}

// maxRuns bounds the runs of one Drain, which take a few seconds. More runs are an endless loop, or a test that
// is too slow.
const maxRuns = 5_000

// runWithin drains, and runs the jobs that come due within d.
func (k *Kit) runWithin(d time.Duration) []Run {
	k.t.Helper()
	first := k.count()
	for k.runDue(first) {
		wait, later := k.nearest()
		if !later {
			break
		}
		if wait > d {
			k.advanceBy(d)
			break
		}
		// Due times are whole microseconds. Without one more, a job that is due in less than a microsecond
		// would never become due in a bubble.
		k.advanceBy(wait + time.Microsecond)
		d -= wait
	}
	return k.since(first)
}

// runDue runs due jobs until none is left. It reports false after an error, which it has reported to the test.
func (k *Kit) runDue(first int) bool {
	k.t.Helper()
	for {
		err := k.promote()
		queues := k.queues()
		if err == nil && len(queues) == 0 {
			err = k.openGates()
			queues = k.queues()
		}
		if err == nil && len(queues) == 0 {
			return true
		}
		if err == nil {
			err = k.work(queues, first)
		}
		k.reportFailures()
		if runs := k.since(first); err == nil && len(runs) > k.maxRuns {
			err = fmt.Errorf("more than %d runs: does a job push or snooze itself without end? The last run was %s", k.maxRuns, runs[k.maxRuns])
		}
		if err != nil {
			k.t.Errorf("belaytest: %v", err)
			return false
		}
	}
}

// work runs a Server until these queues are empty and no worker holds a job of them.
func (k *Kit) work(queues []string, first int) error {
	s := k.server(queues)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	for {
		changed := k.memory.next()
		identity := s.Identity()
		done := k.left(queues, identity) == 0 || k.count()-first > k.maxRuns
		if done && identity != s.Identity() {
			continue // it has registered meanwhile, and the jobs may be in its lists
		}
		if done {
			s.Stop()
			err := <-ended
			// This server is finished, so its tombstone is not needed; a thousand drains would leave a
			// thousand of them.
			k.do("ZREM", k.keys.Tombstones(), s.Identity())
			k.do("DEL", k.keys.Record(s.Identity()))
			return err
		}
		select {
		case err := <-ended:
			return err
		case <-changed:
		}
	}
}

// left returns the number of jobs that wait in these queues or are held by the server, at one instant: a job
// that moves from one list to another between two readings would be in neither.
func (k *Kit) left(queues []string, identity string) (jobs int) {
	ask := lua.Lengths(append(k.keys.ListsOf(queues, identity), k.keys.QueueLists(queues)...))
	lengths, err := ask.Read(k.memory.look(ask.Call)[0])
	if err != nil {
		panic("belaytest: " + err.Error())
	}
	for _, length := range lengths {
		jobs += length
	}
	return jobs
}

// promote moves due jobs to their queues, as the poller of a fleet does. The server's own poller may take two
// seconds, which is too long for a test.
func (k *Kit) promote() error {
	k.do("DEL", k.keys.Poller())
	poller := scheduler.New(scheduler.Config{
		Client: k.memory, Keys: k.keys, Clock: &lua.Clock{},
		Unit: k.client.Config().Unit, Largest: k.client.Config().PayloadLimit + job.PayloadSlack,
	})
	_, err := poller.Pass(context.Background(), "belaytest")
	return err
}

// queues returns the queues that are not empty, in the order of their oldest jobs.
func (k *Kit) queues() []string {
	enqueuedAt := make(map[string]time.Time)
	for _, waiting := range k.Waiting() {
		if _, seen := enqueuedAt[waiting.Queue]; !seen && waiting.At.IsZero() && waiting.Limit == "" {
			enqueuedAt[waiting.Queue], _ = waiting.Job.EnqueuedAt()
		}
	}
	return slices.SortedFunc(maps.Keys(enqueuedAt), func(a, b string) int {
		return cmp.Or(enqueuedAt[a].Compare(enqueuedAt[b]), cmp.Compare(a, b))
	})
}

// nearest returns the time until the next scheduled job or retry is due, if there is one.
func (k *Kit) nearest() (wait time.Duration, later bool) {
	for _, waiting := range k.Waiting() {
		if waiting.At.IsZero() { // in a queue, or at a gate
			continue
		}
		until := max(time.Until(waiting.At), 0)
		if !later || until < wait {
			wait, later = until, true
		}
	}
	for _, until := range k.gates() {
		if !later || until < wait {
			wait, later = until, true
		}
	}
	return wait, later
}

// advanceBy makes all scheduled jobs, retries and stopped gates due earlier by d.
func (k *Kit) advanceBy(d time.Duration) {
	for _, set := range []string{k.keys.Schedule(), k.keys.Retry()} {
		for payload := range k.set(set) {
			k.do("ZINCRBY", set, strconv.FormatFloat(-d.Seconds(), 'f', 6, 64), payload)
		}
	}
	k.shortenStops(d)
}

// do sends one command. It panics on an error reply: none of these commands can fail.
func (k *Kit) do(words ...string) any {
	reply := k.memory.call(words)
	if reply.Err != nil {
		panic("belaytest: " + words[0] + ": " + reply.Err.Error())
	}
	return reply.Value
}

func (k *Kit) list(words ...string) []string {
	texts, err := lua.Texts(driver.Reply{Value: k.do(words...)})
	if err != nil {
		panic("belaytest: " + words[0] + ": " + err.Error())
	}
	return texts
}
