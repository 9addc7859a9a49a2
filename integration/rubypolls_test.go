package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// Ruby's poller and Belay's share the schedule: whichever comes first moves a job, and each is moved once.
func TestBothPollersAtOnce(t *testing.T) {
	t.Parallel()
	eachClientWithRuby(t, func(t *testing.T, s *site, ruby *rubySide) {
		const each = 150
		_, book := startPolling(t, s)
		belays := newLedger(t)
		s.work("-q", "go", "--exec", belays.exec("Ran"))

		var jids, forBelay []string
		ruby.ask(t, &jids, "perform_in", each, "Ran", "ruby", 3)
		ruby.ask(t, &forBelay, "perform_in", each, "Ran", "go", 3)
		jids = append(jids, forBelay...)
		// What is due when it is scheduled surprises either poller: Belay's wakes for the others at their very
		// time, and leaves Ruby's none of them. Ruby writes args anew, which tells whose hands they came
		// through.
		const surprises, gap = 100, 20 * time.Millisecond
		surprised, byBelay := make(map[string]bool), 0
		moved := func() (byRuby int) {
			byBelay = 0
			for _, start := range belays.starts("") {
				switch {
				case !surprised[start.JID]:
				case strings.HasPrefix(string(start.Input), "[ "):
					byBelay++
				default:
					byRuby++
				}
			}
			return byRuby
		}
		for began := time.Now(); len(surprised) < surprises || moved() == 0 || byBelay == 0; {
			require.Less(t, time.Since(began), patience, "one of the pollers had no part in it: the test proves nothing")
			jid := newJID()
			jids, surprised[jid] = append(jids, jid), true
			s.do("ZADD", s.keys.Schedule(), "1000000000", rubyPayload("Ran", "go", fmt.Sprintf("[ %d ]", len(surprised)), jid))
			time.Sleep(gap) // so that they meet many looks of either
		}
		runs := make(map[string]int)
		eventually(t, "all jobs to be run", func() bool {
			clear(runs)
			for _, jid := range rubyRan(book) {
				runs[jid]++
			}
			for _, mark := range belays.ends("") {
				runs[mark.JID]++
			}
			return len(runs) == len(jids)
		})
		for _, jid := range jids {
			require.Equal(t, 1, runs[jid], jid)
		}
		require.Empty(t, s.set(s.keys.Schedule()))
		t.Logf("%d of %d surprises were promoted by Ruby, %d by Belay", moved(), len(surprised), byBelay)
	}, oracle.Allow(oracle.Queue, oracle.Nowhere))
}

// Ruby takes a due job out of its set and pushes it then: killed in between it loses that one, and no other.
func TestRubysPollerIsKilled(t *testing.T) {
	t.Parallel()
	eachClientWithRuby(t, func(t *testing.T, s *site, _ *rubySide) {
		const jobs = 8000 // so that it is not done before we look
		worker, _ := startPolling(t, s)
		words := []string{"ZADD", s.keys.Schedule()}
		for n := range jobs {
			words = append(words, "1000000000", rubyPayload("Ran", "go", fmt.Sprintf("[%d]", n), newJID()))
		}
		s.do(words...)
		left := func() int64 { n, _ := s.do("ZCARD", s.keys.Schedule()).(int64); return n }
		eventually(t, "Ruby to promote some", func() bool { return left() < jobs })
		require.NoError(t, worker.Process.Kill())
		_, _ = worker.Process.Wait()
		byBelay, pushed := left(), len(s.list(s.keys.Queue("go")))
		require.Positive(t, byBelay, "Ruby was done: the test proved nothing")

		var mu sync.Mutex
		runs := make(map[string]int)
		s.run(launcher.Config{Client: s.driverOf(check.RoleWorker), Queues: []fetch.Queue{{Name: "go"}}}, func(_ context.Context, j *job.Job) error {
			mu.Lock()
			defer mu.Unlock()
			runs[j.JID()]++
			return nil
		})
		kept := pushed + int(byBelay)
		t.Logf("Ruby promoted %d, Belay %d; Ruby's death lost %d", pushed, byBelay, jobs-kept)
		require.GreaterOrEqual(t, kept, jobs-1)
		eventually(t, "all others to be run", func() bool { return s.text(s.keys.Processed()) == fmt.Sprint(kept) })
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, runs, kept)
		for jid, times := range runs {
			require.Equal(t, 1, times, jid)
		}
	}, oracle.Allow(oracle.Queue, oracle.Nowhere), oracle.Allow(oracle.Schedule, oracle.Nowhere))
}

// A failed job's retry may be promoted by the other one's poller, and is a retry all the same.
func TestARetryIsPromotedByTheOtherPoller(t *testing.T) {
	t.Parallel()
	eachClientWithRuby(t, func(t *testing.T, s *site, ruby *rubySide) {
		t.Run("Belay's by Ruby's", func(t *testing.T) { rubyPromotesBelays(t, s) })
		t.Run("Ruby's by Belay's", func(t *testing.T) { belayPromotesRubys(t, s, ruby) })
	}, oracle.Allow(oracle.Queue, oracle.Nowhere), oracle.Allow(oracle.Retry, oracle.Retry))
}

func rubyPromotesBelays(t *testing.T, s *site) {
	book, jid := newLedger(t), newJID()
	s.do("LPUSH", s.keys.Queue("go"), rubyPayload("Fails", "go", `[1,{"a":[]}]`, jid))
	failing := s.work("-q", "go", "-c", "1", "--exec", book.exec("Fails", "-fail", "boom"))
	eventually(t, "it to fail", func() bool { return len(s.set(s.keys.Retry())) == 1 })
	waitTerm(t, failing)
	worker, _ := startPolling(t, s)
	s.do("ZADD", s.keys.Retry(), "XX", "1000000000", s.set(s.keys.Retry())[0])
	eventually(t, "Ruby to promote it", func() bool { return len(s.list(s.keys.Queue("go"))) == 1 })
	stopSidekiq(t, worker)

	s.work("-q", "go", "-c", "1", "--exec", book.exec("Fails"))
	book.awaitEnd(jid)
	start := book.awaitStart(jid, 2)
	require.Equal(t, "1", start.RetryCount)
	require.Equal(t, `[1,{"a":[]}]`, string(start.Input))
	require.Empty(t, s.set(s.keys.Retry()))
}

func belayPromotesRubys(t *testing.T, s *site, ruby *rubySide) {
	jid := ruby.push(t, map[string]any{"class": "Raises", "queue": "ruby", "args": []any{1.5, []any{}}})
	worker, _ := startSidekiq(t, s)
	eventually(t, "it to fail", func() bool { return len(s.set(s.keys.Retry())) == 1 })
	stopSidekiq(t, worker)
	entry := s.set(s.keys.Retry())[0]
	s.work("-q", "other", "-c", "1", "--exec", newLedger(t).exec("Any"))
	s.do("ZADD", s.keys.Retry(), "XX", "1000000000", entry)
	eventually(t, "Belay to promote it", func() bool { return len(s.list(s.keys.Queue("ruby"))) == 1 })
	was, err := job.Parse(entry)
	require.NoError(t, err)
	now, err := job.Parse(s.list(s.keys.Queue("ruby"))[0])
	require.NoError(t, err)
	at, _ := now.Field("enqueued_at")
	require.Equal(t, was.Patch(job.Edit{Name: "enqueued_at", JSON: at}), now.Raw(), "nothing else has changed")

	startSidekiq(t, s)
	eventually(t, "Ruby to run and fail it again", func() bool {
		again := ruby.entries(t, "retry")[jid]
		return again.RetryCount != nil && *again.RetryCount == 1 && again.Args == "[1.5,[]]"
	})
}

// A Go worker polls for the whole fleet. Ruby's own jobs, which it never takes, come due as with Ruby's poller,
// whatever their size.
func TestAGoWorkerPromotesRubysOwnJobsWithoutJudgingThem(t *testing.T) {
	t.Parallel()
	eachClientWithRuby(t, func(t *testing.T, s *site, ruby *rubySide) {
		_, book := startSidekiq(t, s, "POLL=3600")
		large := ruby.push(t, map[string]any{"class": "Ran", "queue": "ruby", "args": []any{strings.Repeat("x", 3<<20)}, "at": seconds(time.Now()) + 0.5})
		interrupted := newJID()
		s.do("ZADD", s.keys.Retry(), "1000000000", `{"class":"Ran","queue":"ruby","args":[1],"jid":"`+interrupted+`","interrupted_count":3,"created_at":1.5}`)
		p := s.work("-q", "go", "-c", "1", "--exec", newLedger(t).exec("Any"))
		eventually(t, "Ruby to run both", func() bool {
			ran := rubyRan(book)
			return len(ran) == 2 && slices.Contains(ran, large) && slices.Contains(ran, interrupted)
		})
		require.Zero(t, ruby.stats(t).Dead)
		require.Zero(t, ruby.stats(t).Failed)
		waitTerm(t, p)
	}, oracle.Allow(oracle.Queue, oracle.Nowhere), oracle.Allow(oracle.Nowhere, oracle.Retry), oracle.MaxInterruptions(0))
}

// startPolling starts Sidekiq's worker and waits until its poller looks: it rests for up to five seconds first.
func startPolling(t *testing.T, s *site) (worker *exec.Cmd, book string) {
	t.Helper()
	worker, book = startSidekiq(t, s)
	s.do("ZADD", s.keys.Schedule(), "1000000000", rubyPayload("Raises", "unserved", "[]", newJID()))
	eventually(t, "Ruby's poller", func() bool { return s.do("LLEN", s.keys.Queue("unserved")) == int64(1) })
	s.do("DEL", s.keys.Queue("unserved"))
	return worker, book
}

// stopSidekiq stops Sidekiq's worker as an operator does.
func stopSidekiq(t *testing.T, worker *exec.Cmd) {
	t.Helper()
	require.NoError(t, worker.Process.Signal(syscall.SIGTERM))
	_, err := worker.Process.Wait()
	require.NoError(t, err)
}

// rubyRan are the jids in the file that Ruby's jobs append to, one a run.
func rubyRan(book string) (jids []string) {
	text, _ := os.ReadFile(book)
	for line := range strings.Lines(string(text)) {
		var pair [2]string
		if json.Unmarshal([]byte(line), &pair) == nil {
			jids = append(jids, pair[0])
		}
	}
	return jids
}
