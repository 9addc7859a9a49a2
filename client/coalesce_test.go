package client

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// ready is a job that may share a call.
func (w *world) ready(jid string) *ready {
	w.Helper()
	r := new(ready)
	require.NoError(w, w.client.prepare(w.Context(), &writer{}, &RawJob{Class: "A", JID: jid}, time.Time{}, r))
	require.True(w, r.mayCoalesce())
	return r
}

// An outcome is what a push answered.
type outcome struct {
	receipt Receipt
	err     error
}

// groupOf begins pushes of these jobs, so that they share a call with a first one, which the test has to
// send. Their outcomes come later.
func groupOf(ctx context.Context, w *world, jids ...string) (shared *group, outcomes map[string]chan outcome) {
	w.Helper()
	until, _ := ctx.Deadline()
	shared, at, first := w.client.spaces[0].groups.join(w.ready("first"), until, w.client.cfg.PayloadLimit, w.client.Page)
	require.True(w, first)
	require.Zero(w, at)
	defer w.underWay()()
	outcomes = make(map[string]chan outcome)
	for _, jid := range jids {
		answer := make(chan outcome, 1)
		outcomes[jid] = answer
		go func() {
			receipt, err := w.client.Push(ctx, RawJob{Class: "A", JID: jid})
			answer <- outcome{receipt, err}
		}()
	}
	drivertest.Eventually(w, func() bool {
		w.client.spaces[0].groups.mu.Lock()
		defer w.client.spaces[0].groups.mu.Unlock()
		return len(shared.slice.receipts) == 1+len(jids)
	}, 20*time.Second, time.Millisecond, "all to have joined")
	return shared, outcomes
}

// underWay has as many pushes under way as it takes to share calls, until the answer is called.
func (w *world) underWay() (end func()) {
	w.client.spaces[0].groups.pushing.Add(coalesceFrom)
	return func() { w.client.spaces[0].groups.pushing.Add(-coalesceFrom) }
}

// lead sends what has joined, and is what became of the first.
func (w *world) lead(ctx context.Context, shared *group) outcome {
	w.client.spaces[0].lead(ctx, shared, DefaultQueue)
	return outcome{shared.slice.receipts[0], shared.err}
}

func TestPushesThatShareACall(t *testing.T) {
	promises(t, Config{}, map[string]func(w *world){
		"are stored by one LPUSH, and each gets its own receipt": func(w *world) {
			shared, outcomes := groupOf(w.Context(), w, "b", "c")
			require.Equal(w, outcome{Receipt{JID: "first", Queue: DefaultQueue, Status: StatusQueued}, nil}, w.lead(w.Context(), shared))
			for jid, answer := range outcomes {
				require.Equal(w, outcome{Receipt{JID: jid, Queue: DefaultQueue, Status: StatusQueued}, nil}, <-answer)
			}
			require.Len(w, w.queue(DefaultQueue), 3)
			require.Equal(w, 1, w.proxy.Count("LPUSH"))
		},
		"are unknown together when the answer is lost, and nothing is sent again": func(w *world) {
			shared, outcomes := groupOf(w.Context(), w, "b")
			w.proxy.Add(faultproxy.DropReply("LPUSH"))
			require.ErrorIs(w, w.lead(w.Context(), shared).err, ErrUnknown)
			got := <-outcomes["b"]
			require.ErrorIs(w, got.err, ErrUnknown)
			require.Equal(w, StatusUnknown, got.receipt.Status)
			require.Equal(w, 1, w.proxy.Count("LPUSH"))
			require.Len(w, w.queue(DefaultQueue), 2)
		},
		"are certainly not stored together when Redis refuses": func(w *world) {
			shared, outcomes := groupOf(w.Context(), w, "b")
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "LPUSH", Do: faultproxy.Fail("OOM command not allowed")})
			require.ErrorIs(w, w.lead(w.Context(), shared).err, ErrFull)
			got := <-outcomes["b"]
			require.ErrorIs(w, got.err, ErrFull)
			require.Equal(w, StatusNotPushed, got.receipt.Status)
		},
		"are not ended by cancelling one of them, who sends or not": func(w *world) {
			ctx, cancel := context.WithCancel(w.Context())
			shared, outcomes := groupOf(ctx, w, "b")
			cancel()
			require.NoError(w, w.lead(ctx, shared).err)
			require.NoError(w, (<-outcomes["b"]).err)
			require.Len(w, w.queue(DefaultQueue), 2)
		},
		"end at their deadline": func(w *world) {
			_, err := w.client.Push(w.Context(), RawJob{Class: "A", Queue: "other"}) // over the same connection, which is there then
			require.NoError(w, err)
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "LPUSH", Do: faultproxy.Blackhole()})
			ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second) // a busy machine sends before that
			defer cancel()
			shared, outcomes := groupOf(ctx, w, "b")
			require.ErrorIs(w, w.lead(ctx, shared).err, context.DeadlineExceeded)
			got := <-outcomes["b"]
			require.ErrorIs(w, got.err, ErrUnknown)
			require.Equal(w, StatusUnknown, got.receipt.Status)
		},
		"have no other deadline than their own": func(w *world) {
			shared, _ := groupOf(w.Context(), w)
			defer w.underWay()()
			ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
			defer cancel()
			_, err := w.client.Push(ctx, RawJob{Class: "A"}) // it would wait for ever if it joined
			require.NoError(w, err)
			require.Len(w, shared.slice.receipts, 1)
		},
		"are none where a context has ended before": func(w *world) {
			shared, _ := groupOf(w.Context(), w)
			defer w.underWay()()
			ended, cancel := context.WithCancel(w.Context())
			cancel()
			receipt, err := w.client.Push(ended, RawJob{Class: "A"})
			require.ErrorIs(w, err, context.Canceled)
			require.Equal(w, StatusNotPushed, receipt.Status, "it is certain")
			require.Len(w, shared.slice.receipts, 1)
		},
		"are of one queue, and fail for no other": func(w *world) {
			w.do("SET", w.keys.Queue("odd"), "x")
			shared, outcomes := groupOf(w.Context(), w, "b")
			defer w.underWay()()
			_, err := w.client.Push(w.Context(), RawJob{Class: "A", Queue: "odd"})
			require.ErrorContains(w, err, "WRONGTYPE")
			require.NoError(w, w.lead(w.Context(), shared).err)
			require.NoError(w, (<-outcomes["b"]).err)
		},
		"of which there are many are each stored once, whichever share a call": func(w *world) {
			const producers, each = 16, 50
			var group sync.WaitGroup
			for producer := range producers {
				group.Go(func() {
					for n := range each {
						jid := fmt.Sprintf("job-%d-%d", producer, n)
						receipt, err := w.client.Push(w.Context(), RawJob{Class: "A", JID: jid, Queue: "q" + strconv.Itoa(n%3)})
						assert.NoError(w, err)
						assert.Equal(w, jid, receipt.JID)
					}
				})
			}
			group.Wait()
			all := make(map[string]bool)
			for _, queue := range []string{"q0", "q1", "q2"} {
				for _, payload := range w.queue(queue) {
					_, rest, _ := strings.Cut(payload, `"jid":"`)
					jid, _, _ := strings.Cut(rest, `"`)
					require.False(w, all[jid], "twice: %s", jid)
					all[jid] = true
				}
			}
			require.Len(w, all, producers*each)
			require.Empty(w, w.client.spaces[0].groups.open)
		},
	})
}

// A driver ends its caller's goroutine where it is a test's fake, or panics.
type broken struct{ driver.Client }

func (broken) Do(context.Context, ...driver.Call) []driver.Reply {
	runtime.Goexit()
	return nil
}

func TestNoPushWaitsForACallWhoseGoroutineEnded(t *testing.T) {
	t.Parallel()
	client, err := New(broken{}, Config{})
	require.NoError(t, err)
	shared, _, _ := client.spaces[0].groups.join(&ready{Receipt: Receipt{JID: "a", Queue: "q", Status: StatusQueued}}, time.Time{}, 1, bytes(1))
	_, at, first := client.spaces[0].groups.join(&ready{Receipt: Receipt{JID: "b", Queue: "q", Status: StatusQueued}}, time.Time{}, 1, bytes(1))
	require.False(t, first)
	go client.spaces[0].lead(t.Context(), shared, "q")
	select {
	case <-shared.sent:
	case <-time.After(20 * time.Second):
		require.FailNow(t, "waits for ever")
	}
	require.ErrorIs(t, shared.err, ErrUnknown)
	require.Equal(t, StatusUnknown, shared.slice.receipts[at].Status)
}

func TestPushesStayAloneWhereItTakesLongToLetOthersRun(t *testing.T) {
	var j groups
	j.judge(time.Hour, time.Hour+yieldFor+3*yieldForEach, 3)
	require.Zero(t, j.aloneUntil.Load())
	ended := time.Hour + yieldFor + 3*yieldForEach + 10*time.Millisecond
	j.judge(time.Hour, ended, 3)
	require.Equal(t, int64(ended+200*time.Millisecond), j.aloneUntil.Load())
}

func TestPushesThatShareACallHaveNearlyOneDeadline(t *testing.T) {
	at := time.Now()
	for name, c := range map[string]struct {
		first, second time.Time
		same          bool
	}{
		"none":                {time.Time{}, time.Time{}, true},
		"the first has one":   {at, time.Time{}, false},
		"the second has one":  {time.Time{}, at, false},
		"the same":            {at, at, true},
		"a moment later":      {at, at.Add(alike), true},
		"later":               {at, at.Add(alike + 1), false},
		"earlier by a moment": {at, at.Add(-1), false},
	} {
		t.Run(name, func(t *testing.T) {
			j := groups{}
			r := &ready{Receipt: Receipt{Queue: "a", Status: StatusQueued}}
			one, _, _ := j.join(r, c.first, 1, bytes(1))
			two, _, _ := j.join(r, c.second, 1, bytes(1))
			require.Equal(t, c.same, one == two)
		})
	}
}

// bytes is the page of a link that never changes it.
func bytes(page int) func() int { return func() int { return page } }

func TestACoalescedPushIsAsLargeAsASliceAtMost(t *testing.T) {
	j := groups{}
	large := &ready{Receipt: Receipt{Queue: "a", Status: StatusQueued}}
	large.stored.Job = strings.Repeat("x", 1<<20)
	one, _, first := j.join(large, time.Time{}, 1<<20, bytes(4<<20))
	require.True(t, first)
	for n := 1; n < 4; n++ {
		same, at, first := j.join(large, time.Time{}, 1<<20, bytes(4<<20))
		require.Same(t, one, same)
		require.Equal(t, n, at)
		require.False(t, first)
	}
	_, _, first = j.join(large, time.Time{}, 1<<20, bytes(4<<20))
	require.True(t, first, "a fifth megabyte is another call's")
	require.Equal(t, 4, j.close(one, "a"))
	require.Len(t, j.open, 1, "closing the first leaves the second open")
}
