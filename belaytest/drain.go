package belaytest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// Drain runs all jobs that are due, and the jobs that they push, until none is due. It returns the runs in
// the order in which they began; jobs of one queue run oldest first. A failed run fails the test, unless
// OnFailure was called. Drain does not run its retry, which is not due yet.
func (k *Kit) Drain() []Run {
	k.t.Helper()
	return k.through(0)
}

// Advance drains, lets a time d pass, and runs scheduled jobs, retries and snoozed jobs in the order in which
// they come due. It sets no clock, neither Redis' nor the program's: it moves the due times of waiting jobs,
// so retry_for is not affected. To advance all clocks, use a bubble of testing/synctest, sleep, and Drain.
func (k *Kit) Advance(d time.Duration) []Run {
	k.t.Helper()
	return k.through(d)
}

// DrainAll advances until no job waits: failed jobs run again until they are dead. A job that snoozes or
// schedules itself for ever fails the test.
func (k *Kit) DrainAll() []Run {
	k.t.Helper()
	return k.through(forever)
}

// mostRuns is how many jobs one Drain runs. More are a loop, or too slow a test; these take some seconds.
const mostRuns = 5_000

func (k *Kit) through(d time.Duration) []Run {
	k.t.Helper()
	first := k.count()
	for k.runDue(first) {
		wait, some := k.nearest()
		if !some {
			break
		}
		if wait > d {
			k.bring(d)
			break
		}
		// A score is a number of microseconds, so that a rest of less would never pass where no time does.
		k.bring(wait + time.Microsecond)
		d -= wait
	}
	return k.since(first)
}

// runDue runs what is due until nothing is, and reports whether that went well.
func (k *Kit) runDue(first int) bool {
	k.t.Helper()
	for {
		err := k.promote()
		queues := k.queues()
		if err == nil && len(queues) == 0 {
			return true
		}
		if err == nil {
			err = k.work(queues, first)
		}
		k.tellFailures()
		if runs := k.since(first); err == nil && len(runs) > k.mostRuns {
			err = fmt.Errorf("more than %d runs: does a job push or snooze itself for ever? The last one was %s", k.mostRuns, runs[k.mostRuns])
		}
		if err != nil {
			k.t.Errorf("belaytest: %v", err)
			return false
		}
	}
}

// work has a Server run until these queues are empty and it holds no job of them.
func (k *Kit) work(queues []string, first int) error {
	s := k.server(queues)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	for {
		changed := k.memory.next()
		if k.left(queues, s.Identity()) == 0 || k.count()-first > k.mostRuns {
			s.Stop()
			err := <-ended
			// Its tombstone is for processes that may see its late calls. It has none, and a thousand drains
			// would leave a thousand.
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

// left is how many jobs wait in these queues or are held by a worker.
func (k *Kit) left(queues []string, identity string) (jobs int64) {
	lists := k.keys.WorkingLists(queues, identity)
	for _, queue := range queues {
		lists = append(lists, k.keys.Queue(queue))
	}
	for _, list := range lists {
		length, _ := k.do("LLEN", list).(int64)
		jobs += length
	}
	return jobs
}

// promote moves what is due to its queue, as the poller of a fleet does. A server's own would come to it
// within two seconds: a test has no time for that.
func (k *Kit) promote() error {
	k.do("DEL", k.keys.Poller())
	poller := scheduler.New(scheduler.Config{
		Client: k.memory, Keys: k.keys, Clock: &lua.Clock{}, Log: zerolog.Nop(),
		Unit: k.client.Config().Unit, Largest: k.client.Config().PayloadLimit + job.PayloadSlack,
	})
	_, err := poller.Pass(context.Background(), "belaytest")
	return err
}

// queues are those that are not empty, the one with the oldest job first.
func (k *Kit) queues() []string {
	enqueuedAt := make(map[string]time.Time)
	for _, waiting := range k.Waiting() {
		if _, seen := enqueuedAt[waiting.Queue]; !seen && waiting.At.IsZero() {
			enqueuedAt[waiting.Queue], _ = waiting.Job.EnqueuedAt()
		}
	}
	return slices.SortedFunc(maps.Keys(enqueuedAt), func(a, b string) int {
		return cmp.Or(enqueuedAt[a].Compare(enqueuedAt[b]), cmp.Compare(a, b))
	})
}

// nearest is how long it is until the next job for later is due, if there is one.
func (k *Kit) nearest() (wait time.Duration, some bool) {
	for _, waiting := range k.Waiting() {
		if waiting.At.IsZero() {
			continue
		}
		until := max(time.Until(waiting.At), 0)
		if !some || until < wait {
			wait, some = until, true
		}
	}
	return wait, some
}

// bring brings everything for later nearer by d.
func (k *Kit) bring(d time.Duration) {
	for _, set := range []string{k.keys.Schedule(), k.keys.Retry()} {
		for payload := range k.set(set) {
			k.do("ZINCRBY", set, strconv.FormatFloat(-d.Seconds(), 'f', 6, 64), payload)
		}
	}
}

// do has Redis carry out one command. What it is given here it does not refuse.
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
