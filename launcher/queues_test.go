package launcher_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
)

// enqueue stores a job as a client does, with the name of its queue.
func (r *rig) enqueue(queue string) {
	r.t.Helper()
	r.do("SADD", r.keys.Queues(), queue)
	r.do("LPUSH", r.keys.Queue(queue),
		job.Draft{Class: "Job", Queue: queue, ArgsJSON: "[]", CreatedAt: time.Now(), EnqueuedAt: time.Now()}.Encode())
}

// named are the queues that a process' record names.
func (r *rig) named(identity string) []string {
	r.t.Helper()
	record, err := r.keys.ReadRecord(identity).Do(r.t.Context(), r.client)
	require.NoError(r.t, err)
	if record == nil {
		return nil
	}
	return record.Queues
}

// shown are the queues that Sidekiq's readers see.
func (r *rig) shown(identity string) []string {
	r.t.Helper()
	text, _ := r.do("HGET", r.keys.Process(identity), "info").(string)
	var info struct{ Queues []string }
	if text != "" {
		require.NoError(r.t, json.Unmarshal([]byte(text), &info))
	}
	return info.Queues
}

// logged is how often the log has a message.
func (r *rig) logged(message string) int { return strings.Count(r.log.String(), message) }

// queueWorker is a worker that reports the queue of each run, which lasts until goOn has a value, or that the
// record does not name that queue.
func (r *rig) queueWorker(cfg launcher.Config) (w *worker, runs chan string, goOn chan bool) {
	r.t.Helper()
	l := r.build(cfg)
	runs, goOn = make(chan string, 100), make(chan bool, 100)
	l.Handle("Job", func(ctx context.Context, _ *job.Job) error {
		info, _ := launcher.Info(ctx)
		if !slices.Contains(r.named(info.Identity), info.Queue) {
			runs <- "a queue that the record does not name: " + info.Queue
			return nil
		}
		runs <- info.Queue
		<-goOn
		return nil
	}, launcher.Class{})
	w = r.start(l)
	r.eventually("the worker to be registered", func() bool { return l.Identity() != "" })
	return w, runs, goOn
}

func TestQueuesAreAddedAndRemovedAtRunTime(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		w, runs, goOn := r.queueWorker(r.config())
		r.enqueue("late")
		require.NoError(t, w.AddQueue("late", 0))
		require.Equal(t, "late", receive(t, "the job of the added queue", runs))
		require.Equal(t, []string{"default", "late"}, w.Queues())
		r.eventually("Sidekiq's readers to see it", func() bool { return slices.Equal(r.shown(w.Identity()), []string{"default", "late"}) })

		require.NoError(t, w.RemoveQueue("late"))
		require.Equal(t, []string{"default"}, w.Queues())
		r.eventually("Sidekiq's readers to see it", func() bool { return slices.Equal(r.shown(w.Identity()), []string{"default"}) })
		r.enqueue("late")
		r.enqueue("default")
		require.Equal(t, "default", receive(t, "the job of the other queue", runs))
		time.Sleep(2 * time.Second) // longer than all that could follow
		require.Empty(t, runs)
		require.Contains(t, r.named(w.Identity()), "late", "its job runs still")

		goOn <- true
		goOn <- true
		r.eventually("the record to name it no more", func() bool { return slices.Equal(r.named(w.Identity()), []string{"default"}) })
		require.Equal(t, int64(1), r.do("LLEN", r.keys.Queue("late")))
		require.NoError(t, w.AddQueue("late", 0))
		require.Equal(t, "late", receive(t, "the job that waited", runs))
		goOn <- true
		r.eventually("all to be settled", func() bool { return r.counter(r.keys.Processed()) == "3" })
	})
}

func TestAPatternTakesFromTheQueuesThatMatchAsTheyComeAndGo(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		cfg := r.config()
		cfg.Queues = []fetch.Queue{{Name: "tenant-*"}}
		w, runs, goOn := r.queueWorker(cfg)
		require.Empty(t, w.Queues())
		for _, queue := range []string{"other", "tenant-1", "tenant-2"} {
			r.enqueue(queue)
			goOn <- true
		}
		got := []string{receive(t, "a job", runs), receive(t, "a job", runs)}
		require.ElementsMatch(t, []string{"tenant-1", "tenant-2"}, got)
		require.Equal(t, []string{"tenant-1", "tenant-2"}, w.Queues())

		r.do("SREM", r.keys.Queues(), "tenant-1")
		r.eventually("an empty queue whose name is deleted to go", func() bool { return slices.Equal(r.named(w.Identity()), []string{"tenant-2"}) })
		r.enqueue("tenant-1")
		require.Equal(t, "tenant-1", receive(t, "its next job, when it comes again", runs))

		require.NoError(t, w.RemoveQueue("tenant-2"))
		r.eventually("the removed queue to go", func() bool { return slices.Equal(r.named(w.Identity()), []string{"tenant-1"}) })
		r.enqueue("tenant-2")
		r.enqueue("tenant-3")
		require.Equal(t, "tenant-3", receive(t, "the job of another queue", runs))
		require.Equal(t, []string{"tenant-1", "tenant-3"}, w.Queues(), "a queue that was removed does not come back by the pattern")
		goOn <- true
		require.NoError(t, w.AddQueue("tenant-2", 0))
		require.Equal(t, "tenant-2", receive(t, "the job of a queue that was added again", runs))
		goOn <- true
		r.eventually("all to be settled", func() bool { return r.counter(r.keys.Processed()) == "5" })
		require.Equal(t, int64(1), r.do("LLEN", r.keys.Queue("other")))
	})
}

func TestAddQueueSaysWhatIsInvalid(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	cfg := r.config()
	cfg.Queues = []fetch.Queue{{Name: "a"}, {Name: "b*"}}
	cfg.Capsules = []launcher.Capsule{{Name: "one", Queues: []fetch.Queue{{Name: "c"}}}}
	l := r.build(cfg)
	require.ErrorContains(t, l.AddQueue("x*", 0), "it is a pattern")
	require.ErrorContains(t, l.AddQueue("", 0), "empty")
	require.ErrorContains(t, l.AddQueue("d", -1), "a weight must be between 1")
	require.ErrorContains(t, l.RemoveQueue("b*"), "it is a pattern")
	require.ErrorContains(t, l.RemoveQueue("c"), "it is the only queue of its capsule")
	require.NoError(t, l.RemoveQueue("nosuch"))
	require.Equal(t, []string{"a", "c"}, l.Queues())
	require.Equal(t, []string{"a", "b*", "c"}, l.QueuesAndPatterns())
	for n := range lua.MaxQueues - 3 {
		require.NoError(t, l.AddQueue(fmt.Sprint(n), 0))
		require.NoError(t, l.AddQueue(fmt.Sprint(n), 2), "a second time changes the weight")
	}
	require.ErrorContains(t, l.AddQueue("more", 0), fmt.Sprintf("at most %d queues", lua.MaxQueues))
	require.NoError(t, l.RemoveQueue("0"))
	require.NoError(t, l.AddQueue("more", 0))
	require.Len(t, l.Queues(), lua.MaxQueues-1)
}

// More queues match than a process takes: it takes as many as it may, says that there are others, and takes those in
// their turns.
func TestAPatternThatMatchesTooManyQueuesTakesThemInTurns(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	words := []string{"SADD", r.keys.Queues()}
	for n := range lua.MaxQueues + 10 {
		words = append(words, fmt.Sprintf("tenant-%03d", n))
	}
	r.do(words...)
	cfg := r.config()
	cfg.Queues = []fetch.Queue{{Name: "tenant-*"}, {Name: "default"}}
	w, runs, goOn := r.queueWorker(cfg)
	r.eventually("all that it may take", func() bool { return len(w.Queues()) == lua.MaxQueues && len(r.named(w.Identity())) == lua.MaxQueues })
	r.eventually("the warning", func() bool { return r.logged("too many queues match") == 1 })
	last := fmt.Sprintf("tenant-%03d", lua.MaxQueues+9)
	goOn <- true
	r.enqueue(last)
	select {
	case queue := <-runs:
		require.Equal(t, last, queue)
	case <-time.After(3 * patience): // its turn comes after ten seconds
		require.FailNow(t, "the last queue has no turn")
	}

	r.do("SREM", r.keys.Queues(), "tenant-100")
	r.eventually("another queue in its place", func() bool {
		named := r.named(w.Identity())
		return !slices.Contains(named, "tenant-100") && len(named) == lua.MaxQueues
	})
	require.Equal(t, 1, r.logged("too many queues match"))
}

// A session that begins anew names the queues that were added, also if it was declared dead while one was.
func TestANewSessionNamesTheAddedQueues(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		w, runs, goOn := r.queueWorker(r.config())
		first := w.Identity()
		require.NoError(t, w.AddQueue("early", 0))
		r.eventually("the record to name it", func() bool { return slices.Contains(r.named(first), "early") })
		r.declareDead(first)
		require.NoError(t, w.AddQueue("late", 0))
		r.eventually("the next session", func() bool { return w.Identity() != first })
		for _, queue := range []string{"early", "late"} {
			r.enqueue(queue)
			require.Equal(t, queue, receive(t, "the job of "+queue, runs))
			goOn <- true
		}
		r.eventually("the record to name all", func() bool {
			return slices.Equal(r.named(w.Identity()), []string{"default", "early", "late"})
		})
	})
}
