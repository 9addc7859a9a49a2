package integration

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/check"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// Each language pushes two thousand jobs for the other, one by one, in bulk and for later, and some fail. Both
// poll, and a worker of each is killed. Every job of Go's queues runs, and more than once only if its worker was
// killed; of Ruby's are lost at most those that its killed worker had in hand. Ruby's poller takes a due job out
// of Redis before it pushes it, so the killed one may lose one job, of either language.
func TestThousandsOfJobsEachWay(t *testing.T) {
	t.Parallel()
	const bulk, later, failing, rubys = 1000, 600, 400, 2 // rubys is the concurrency of Ruby's worker
	s := newSite(t, drivertest.Start(t))
	s.use("")
	ruby := startRuby(t, s.url)
	worker, book := startPolling(t, s)

	var letters []rubyPush
	var timed []string
	ruby.ask(t, &letters, "push_bulk", bulk)
	ruby.ask(t, &timed, "perform_in", later, "Ran", "go", 4)
	forGo, fails := timed, make(map[string]bool)
	for _, letter := range letters {
		forGo = append(forGo, letter.JID)
	}
	for n := range failing {
		fails[ruby.push(t, map[string]any{"class": "Fails", "queue": "go", "args": []any{n}, "retry": 0})] = true
	}

	client, err := belay.Open(t.Context(), s.urlOf(check.RoleProducer), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	forRuby := make(map[string]string)
	receipts, err := client.PushMany(t.Context(), func(yield func(belay.RawJob) bool) {
		for n := range bulk + later + failing {
			item := belay.RawJob{Class: "Ran", Queue: "ruby", Args: []any{n}}
			switch {
			case n < failing:
				item.Class, item.Retry = "Raises", job.RetryRule{Kind: job.RetryLimit}
			case n < failing+later:
				item.In = time.Duration(rand.IntN(4000)) * time.Millisecond
			}
			if !yield(item) {
				return
			}
		}
	})
	require.NoError(t, err)
	for n, receipt := range receipts {
		forRuby[receipt.JID] = "Ran"
		if n < failing {
			forRuby[receipt.JID] = "Raises"
		}
	}

	var mu sync.Mutex
	runs := make(map[string]int)
	hands := newLedger(t)
	killed := s.work(append(fast, "-q", "mail", "-q", "go", "-c", "4", "--exec", hands.exec("Fails", "-fail", "boom"), "--exec", hands.exec("*"))...)
	eventually(t, "Go to run some", func() bool { return len(hands.starts("")) > 20 })
	require.NoError(t, worker.Process.Kill())
	_ = worker.Wait()
	killed.kill()
	_, second := startSidekiq(t, s)
	s.run(launcher.Config{Client: s.driverOf(check.RoleWorker), Queues: []fetch.Queue{{Name: "mail"}, {Name: "go"}}}, func(_ context.Context, j *job.Job) error {
		mu.Lock()
		defer mu.Unlock()
		runs[j.JID()]++
		if j.Class() == "Fails" {
			return errors.New("boom")
		}
		return nil
	})

	var buried map[string]rubyEntry
	ran := make(map[string]int)
	missing := func() (missing int) {
		buried = ruby.entries(t, "dead")
		clear(ran)
		for _, jid := range append(rubyRan(book), rubyRan(second)...) {
			ran[jid]++
		}
		for jid, class := range forRuby {
			if _, died := buried[jid]; class == "Ran" && ran[jid] == 0 || class == "Raises" && !died {
				missing++
			}
		}
		return missing
	}
	eventually(t, "Ruby to have run all but what its worker had in hand, and a job that its poller was moving", func() bool {
		return ruby.stats(t).Enqueued == 0 && len(s.set(s.keys.Schedule())) == 0 && missing() <= rubys+1
	})
	eventually(t, "the jobs of Go's killed worker to be recovered", func() bool { return len(s.set(s.keys.Alive())) == 1 })
	var unmoved int // Go's jobs that Ruby's killed poller was moving
	eventually(t, "Go to have run all but a job that Ruby's killed poller was moving", func() bool {
		mu.Lock()
		defer mu.Unlock()
		ended := make(map[string]int)
		for _, mark := range hands.ends("") {
			ended[mark.JID]++
		}
		unmoved = 0
		for n, jid := range forGo {
			if runs[jid]+ended[jid] > 0 {
				continue
			}
			if unmoved++; n >= len(timed) {
				return false // it was never scheduled
			}
		}
		return unmoved <= 1
	})
	starts := hands.starts("")
	mu.Lock()
	defer mu.Unlock()
	again := 0
	for _, start := range starts {
		again += runs[start.JID]
	}
	require.LessOrEqual(t, again, 4, "only what the killed worker had in hand runs again")

	lost := missing()
	for jid := range forRuby {
		require.LessOrEqual(t, ran[jid], 1, jid)
	}
	for jid := range fails {
		require.Contains(t, buried[jid].ErrorMessage, "boom", jid)
	}
	t.Logf("%d of Go's jobs ran again; Ruby lost %d, and %d of Go's", again, lost, unmoved)
}
