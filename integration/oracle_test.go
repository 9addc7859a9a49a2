package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/retry"
)

// Jobs of every kind go through workers that are killed, frozen and stopped at random; the oracle, which has
// seen each step of each job, finds nothing to object to.
func TestEveryStepIsLawful(t *testing.T) {
	t.Parallel()
	for name := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, dir := recorded(t)
			t.Cleanup(func() { requireEachMove(t, judge(t, server, dir)) })
			s := newSite(t, server)
			s.client = name
			turmoil(t, s)
		})
	}
}

// requireEachMove holds that jobs went every way that the oracle judges, or the test proves less than it
// should.
func requireEachMove(t *testing.T, report *oracle.Report) {
	t.Helper()
	moves := make(map[oracle.Move]int)
	for edge, n := range report.Edges {
		moves[edge.Move] += n
	}
	t.Log(moves)
	for _, move := range []oracle.Move{oracle.Ended, oracle.Retried, oracle.Snoozed, oracle.Requeued, oracle.Recovered, oracle.Promoted} {
		assert.Positive(t, moves[move], "no job was ever %s", move)
	}
}

// mayhem is how long turmoil kills workers; with BELAY_LONG=1 longer.
func mayhem() time.Duration {
	if os.Getenv("BELAY_LONG") == "1" {
		return time.Minute
	}
	return 6 * time.Second
}

func turmoil(t *testing.T, s *site) {
	redis, pusher := s.driverOf(check.RoleWorker), s.clientOf(check.RoleProducer)
	var pushed atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	pushing := make(chan struct{})
	go func() {
		defer close(pushing)
		pushOddJobs(ctx, pusher, &pushed)
	}()
	book := newLedger(t)
	words := append([]string{"-q", "many", "-q", "rare", "-c", "5", "--shutdown-timeout", "200ms", "--exec", book.exec("*")}, fast...)
	var runs atomic.Uint64
	workers, odd := s.supervise(3, words...), oddHandler(&runs)
	var thaws sync.WaitGroup
	// A machine with other work may need longer for every end of a run to happen often.
	end := time.Now().Add(mayhem())
	for n := 0; time.Now().Before(end) || runs.Load() < 3*oddEnds && time.Now().Before(end.Add(patience)); n++ {
		workers.strike(&thaws, book, n%3)
		inProcess(t, s, redis, odd, func() { time.Sleep(time.Duration(200+rand.IntN(500)) * time.Millisecond) })
	}
	stop()
	<-pushing
	thaws.Wait()
	workers.end()
	inProcess(t, s, redis, odd, func() {
		eventually(t, "all jobs to end", func() bool { return s.waiting() == 0 })
	})
	t.Logf("%d jobs, %d ends of workers", pushed.Load(), workers.deaths())
}

// strike freezes one of its workers until long after it has been declared dead, or kills it, or asks it to
// stop: the one that has started a job last, so that it has one.
func (c *supervisor) strike(thaws *sync.WaitGroup, book *ledger, how int) {
	c.mu.Lock()
	living := slices.DeleteFunc(slices.Clone(c.all), (*process).ended)
	c.mu.Unlock()
	if len(living) == 0 {
		return
	}
	victim := living[rand.IntN(len(living))]
	starts := book.starts("")
	for _, w := range living {
		if len(starts) > 0 && w.pid == starts[len(starts)-1].Worker {
			victim = w
		}
	}
	switch how {
	case 0:
		_ = syscall.Kill(victim.pid, syscall.SIGSTOP)
		thaws.Go(func() {
			time.Sleep(3 * time.Second)
			_ = syscall.Kill(victim.pid, syscall.SIGCONT)
		})
	case 1:
		victim.kill()
	case 2:
		_ = syscall.Kill(victim.pid, syscall.SIGTERM)
	}
}

// waiting is how many jobs and lists with jobs there are anywhere but among the dead. It looks at all places at
// one instant: else it would miss a job that moves from one that is still to be looked at to one that has been.
func (s *site) waiting() int {
	s.t.Helper()
	const count = `local n = redis.call('ZCARD', KEYS[1]) + redis.call('ZCARD', KEYS[2])
		for _, pattern in ipairs(ARGV) do n = n + #redis.call('KEYS', pattern) end
		return n`
	words := []string{"EVAL", count, "2", s.keys.Retry(), s.keys.Schedule()}
	for _, lists := range []string{":queue:*", ":belay:working:*", ":belay:quarantine:*", ":belay:quarantine-run:*"} {
		words = append(words, strings.TrimPrefix(s.prefix+lists, ":")) // a site may have no prefix
	}
	n, ok := s.do(words...).(int64)
	require.True(s.t, ok)
	return int(n)
}

// pushOddJobs pushes jobs of all kinds, now and for later, until ctx ends.
func pushOddJobs(ctx context.Context, pusher *client.Client, pushed *atomic.Int64) {
	for n := 0; ctx.Err() == nil; n++ {
		j := client.RawJob{Class: "Odd", Queue: "many", ArgsJSON: fmt.Sprintf("[%d,%d,1.0,{}]", n, rand.IntN(400))}
		if n%7 == 0 {
			j.Queue = "rare"
		}
		if n%3 == 0 {
			j.At = time.Now().Add(rand.N(2 * time.Second))
		}
		if _, err := pusher.Push(ctx, j); err == nil {
			pushed.Add(1)
		}
		time.Sleep(6 * time.Millisecond)
	}
}

// inProcess runs a worker in this process while a function runs; then it stops it.
func inProcess(t *testing.T, s *site, redis driver.Client, handler launcher.Handler, while func()) {
	t.Helper()
	l, err := launcher.New(launcher.Config{
		Client: redis, Prefix: s.prefix, Queues: []fetch.Queue{{Name: "many"}, {Name: "rare"}}, Concurrency: 3,
		Beat: 200 * time.Millisecond, TTL: time.Second, ShutdownTimeout: -1,
	})
	require.NoError(t, err)
	l.Handle(launcher.AnyClass, handler, launcher.Class{})
	done := make(chan error, 1)
	go func() { done <- l.Run(context.Background()) }()
	while()
	l.Stop()
	require.NoError(t, <-done)
}

// oddEnds is after how many runs an oddHandler begins again.
const oddEnds = 12

// oddHandler returns a handler that ends its runs in turn in each way there is, and counts them. Sooner or
// later every job is done.
func oddHandler(runs *atomic.Uint64) launcher.Handler {
	return func(ctx context.Context, j *job.Job) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(100 * time.Millisecond)):
		}
		err := errors.New("odd é")
		switch runs.Add(1) % oddEnds {
		case 0, 1:
			return retry.In(rand.N(300*time.Millisecond), err)
		case 2:
			return retry.Snooze(rand.N(300 * time.Millisecond))
		case 3:
			return retry.Discard(nil)
		case 4:
			return retry.Discard(err)
		case 5:
			if n, _ := j.RetryCount(); n > 2 {
				return retry.Kill(err)
			}
			return retry.In(0, err)
		}
		return nil
	}
}
