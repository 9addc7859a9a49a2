package fetch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

// follow makes the loop take from these queues, in strict order, after the record has named them.
func (r *rig) follow(queues ...string) {
	r.t.Helper()
	named := slices.Clone(r.k.names())
	for _, queue := range queues {
		if !slices.Contains(named, queue) {
			named = append(named, queue)
		}
	}
	served, err := r.session.Serve(r.ctx, r.direct, r.keys, named, nil)
	require.NoError(r.t, err)
	require.True(r.t, served)
	r.k.serve([]*QueueOrder{strictly(r.t, queues...)})
}

func (r *rig) hasLeft(queue string) bool {
	q := r.k.queues[queue]
	return q != nil && r.k.hasLeft(q, time.Now())
}

func TestQueuesThatComeAndGo(t *testing.T) {
	t.Parallel()
	t.Run("a_queue_that_comes_is_waited_on_and_taken_from", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 3, "a")
			r.pump("a to be waited on", func() bool { return r.k.openWaits() == 1 })
			r.push("b", 1)
			r.awhile(50 * time.Millisecond)
			require.Empty(t, r.running)
			r.follow("a", "b")
			r.pump("the job that waits", func() bool { return len(r.running) == 1 })
			r.pump("waits on both", func() bool { return r.k.openWaits() == 2 })
			r.push("b", 1)
			r.pump("the next", func() bool { return len(r.running) == 2 })
			require.Equal(t, "b", r.running[1].Queue)
			r.beat()
			r.end(done)
			require.Empty(t, r.working("b"))
		})
	})
	t.Run("a_queue_that_goes_leaves_when_its_jobs_have_ended", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 3, "a", "b")
			r.push("b", 1)
			r.pump("the job, and the waits", func() bool { return len(r.running) == 1 && r.k.openWaits() == 2 })
			r.follow("a")
			r.pump("the wait on b to end", func() bool { return r.k.openWaits() == 1 && r.k.queues["b"].wait == nil })
			left := r.push("b", 1)
			r.beat()
			r.awhile(400 * time.Millisecond)
			require.Len(t, r.running, 1, "no more jobs are taken from it")
			require.False(t, r.hasLeft("b"))
			require.Equal(t, []string{"a", "b"}, r.k.names(), "its working list is still read")

			r.end(done)
			r.pump("b to have left", func() bool { return r.hasLeft("b") })
			served, err := r.session.Serve(r.ctx, r.direct, r.keys, []string{"a"}, []string{"b"})
			require.NoError(t, err)
			require.True(t, served)
			r.drop("b")
			require.Equal(t, []string{"a"}, r.k.names())
			require.Equal(t, left, r.list(r.keys.Queue("b")))
			r.beat()
			r.push("a", 1)
			r.pump("a job of the queue that stayed", func() bool { return len(r.running) == 1 })
			r.end(done)

			r.follow("a", "b")
			r.pump("b is taken from again", func() bool { return len(r.running) == 1 && r.running[0].Queue == "b" })
			r.end(done)
		})
	})
	t.Run("a_queue_comes_back_before_it_has_left", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "a", "b")
			r.push("b", 1)
			r.pump("the job", func() bool { return len(r.running) == 1 })
			r.follow("a")
			r.follow("a", "b")
			r.push("b", 1)
			r.pump("its next job", func() bool { return len(r.running) == 2 })
			require.False(t, r.hasLeft("b"))
			r.end(done)
		})
	})
	t.Run("a_call_with_an_unknown_result_keeps_a_queue_from_leaving", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "a", "b")
			r.pump("the waits", func() bool { return r.k.openWaits() == 2 })
			r.follow("a")
			r.pump("the wait to end", func() bool { return r.k.queues["b"].wait == nil && r.k.inFlight == 0 })
			require.True(t, r.hasLeft("b"))
			r.k.doubtedAt = time.Now()
			require.False(t, r.hasLeft("b"), "Redis may still execute a wait of it")
			require.True(t, r.k.hasLeft(r.k.queues["b"], time.Now().Add(leaveAfter)))
		})
	})
	t.Run("a_record_that_is_restored_names_a_queue_that_comes", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "a")
			r.follow("a", "b")
			r.do("DEL", r.keys.Record(r.session.Identity))
			served, err := r.session.Serve(r.ctx, r.direct, r.keys, []string{"a", "b", "c"}, nil)
			require.NoError(t, err)
			require.False(t, served, "a record that is lost names nothing")
			require.True(t, r.beat().Restored)
			record, err := r.keys.ReadRecord(r.session.Identity).Do(r.ctx, r.direct)
			require.NoError(t, err)
			require.Equal(t, []string{"a", "b", "c"}, record.Queues, "what a call that is executed late may name")
		})
	})
	t.Run("a_process_without_a_queue_takes_nothing_and_looks_well", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "a")
			order, err := NewQueueOrder([]Queue{{Name: "t*"}}, rand.New(rand.NewPCG(1, 2)))
			require.NoError(t, err)
			r.k.serve([]*QueueOrder{order})
			r.pump("a to have left", func() bool { return r.hasLeft("a") })
			r.drop("a")
			r.beat()
			r.pump("the lists to be read", func() bool { return r.k.inFlight == 0 && !r.k.reconcile.due })
			r.awhile(100 * time.Millisecond)
			require.NotContains(t, r.log.String(), `"level":"error"`)
			require.Zero(t, r.k.openWaits())
		})
	})
}

// drop is what Keyspace.Drop does.
func (r *rig) drop(queue string) {
	r.t.Helper()
	q := r.k.queues[queue]
	require.True(r.t, r.hasLeft(queue))
	q.drop()
	r.k.nameQueues()
}

// With more queues than waits the others are read by takes, and each of them gets its turn.
func TestManyQueues(t *testing.T) {
	t.Parallel()
	var queues []string
	for n := range 40 {
		queues = append(queues, fmt.Sprintf("q%02d", n))
	}
	t.Run("need_few_connections_and_all_jobs_run", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			for _, concurrency := range []int{1, 5, 50} {
				r := newRig(t, open, concurrency, queues...)
				r.pump("the waits", func() bool { return r.k.openWaits() == lua.MaxWaits })
				for _, queue := range []string{"q39", "q00", "q20"} {
					r.stay()
					r.push(queue, 1)
					r.pump("the job of "+queue, func() bool { return len(r.running) == 1 })
					require.LessOrEqual(t, r.k.waitConnections(), lua.MaxWaits)
					r.end(done)
				}
			}
		})
	})
	t.Run("are_read_a_few_times_a_second_while_they_are_empty", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 5, queues...)
			r.pump("the waits", func() bool { return r.k.openWaits() == lua.MaxWaits })
			before := r.proxy.Count("EVALSHA")
			r.awhile(2 * time.Second)
			require.InDelta(t, 8, r.proxy.Count("EVALSHA")-before, 4)
		})
	})
	t.Run("keep_all_processors_busy", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 10, queues...)
			r.pump("the waits", func() bool { return r.k.openWaits() == lua.MaxWaits })
			r.push("q30", 30)
			r.pump("ten jobs of a queue without a wait", func() bool { return len(r.running) == 10 })
			r.push("q01", 30)
			ran := 0
			for ran < 60 {
				r.stay()
				r.pump("jobs", func() bool { return len(r.running) > 0 })
				require.LessOrEqual(t, len(r.running), 10)
				ran += len(r.running)
				r.end(done)
			}
			require.Equal(t, 60, ran)
			require.Equal(t, "60", r.count(r.keys.Processed()))
		})
	})
	t.Run("of_capsules_share_the_waits", func(t *testing.T) {
		t.Parallel()
		share := func(queues ...string) Share { return Share{Order: strictly(t, queues...), Concurrency: 2} }
		l := NewLoop(Config{Shares: []Share{share(queues...), share("a", "b"), share(queues[:10]...)}})
		r := newRig(t, clients["go-redis"], 1, "x")
		k, err := l.Open(r.k.Space)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, k.close()) })
		var quotas []int
		for _, in := range k.intakes {
			quotas = append(quotas, in.quota)
		}
		require.Equal(t, []int{7, 2, 7}, quotas)
	})
}
