package client

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver/drivertest/faultproxy"
)

// ready is a job that may share a call.
func (w *world) ready(jid string) ready {
	w.Helper()
	r, err := w.client.prepare(w.Context(), Job{Class: "A", JID: jid})
	require.NoError(w, err)
	require.True(w, r.mayJoin())
	return r
}

// An outcome is what a push answered.
type outcome struct {
	receipt Receipt
	err     error
}

// jointOf begins pushes of these jobs, each with its context, so that they share a call, which has not been sent: the
// first of them is in the test's hand. The others' outcomes come later.
func jointOf(w *world, contexts map[string]context.Context) (shared *joint, outcomes map[string]chan outcome) {
	w.Helper()
	shared, at, first := w.client.joints.join(w.ready("first"), w.client.cfg.PayloadLimit)
	require.True(w, first)
	require.Zero(w, at)
	w.client.joints.pushing.Add(crowd)
	defer w.client.joints.pushing.Add(-crowd)
	outcomes = make(map[string]chan outcome)
	for jid, ctx := range contexts {
		answer := make(chan outcome, 1)
		outcomes[jid] = answer
		go func() {
			receipt, err := w.client.Push(ctx, Job{Class: "A", JID: jid})
			answer <- outcome{receipt, err}
		}()
	}
	require.Eventually(w, func() bool {
		w.client.joints.mu.Lock()
		defer w.client.joints.mu.Unlock()
		return shared.waiting == 1+len(contexts)
	}, 20*time.Second, time.Millisecond, "all to have joined")
	return shared, outcomes
}

func TestPushesThatShareACall(t *testing.T) {
	promises(t, Config{}, map[string]func(w *world){
		"are stored by one LPUSH, and each gets its own receipt": func(w *world) {
			shared, outcomes := jointOf(w, map[string]context.Context{"b": w.Context(), "c": w.Context()})
			require.Equal(w, 3, w.client.joints.close(shared, DefaultQueue))
			w.client.sendJoint(w.Context(), shared)
			for jid, answer := range outcomes {
				got := <-answer
				require.NoError(w, got.err)
				require.Equal(w, Receipt{JID: jid, Queue: DefaultQueue, Status: StatusQueued}, got.receipt)
			}
			require.Len(w, w.queue(DefaultQueue), 3)
			require.Equal(w, 1, w.proxy.Count("LPUSH"))
		},
		"are unknown together when the answer is lost, and nothing is sent again": func(w *world) {
			shared, outcomes := jointOf(w, map[string]context.Context{"b": w.Context()})
			w.proxy.Add(faultproxy.DropReply("LPUSH"))
			w.client.joints.close(shared, DefaultQueue)
			w.client.sendJoint(w.Context(), shared)
			got := <-outcomes["b"]
			require.ErrorIs(w, got.err, ErrUnknown)
			require.Equal(w, StatusUnknown, got.receipt.Status)
			<-shared.sent
			require.ErrorIs(w, shared.err, ErrUnknown)
			require.Equal(w, 1, w.proxy.Count("LPUSH"))
			require.Len(w, w.queue(DefaultQueue), 2)
		},
		"do not lose each other when one's context ends": func(w *world) {
			brief, cancel := context.WithCancel(w.Context())
			defer cancel()
			shared, outcomes := jointOf(w, map[string]context.Context{"brief": brief, "patient": w.Context()})
			gate := faultproxy.NewGate()
			w.Cleanup(gate.Open)
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "LPUSH", Do: faultproxy.Hold(gate)})
			w.client.joints.close(shared, DefaultQueue)
			leader, end := context.WithCancel(w.Context())
			w.client.sendJoint(leader, shared)
			<-gate.Arrived()
			end() // the one who sends takes nothing from the others either
			cancel()
			got := <-outcomes["brief"]
			require.ErrorIs(w, got.err, ErrUnknown)
			require.ErrorIs(w, got.err, context.Canceled)
			require.Equal(w, Receipt{JID: "brief", Queue: DefaultQueue, Status: StatusUnknown}, got.receipt)
			gate.Open()
			got = <-outcomes["patient"]
			require.NoError(w, got.err)
			require.Len(w, w.queue(DefaultQueue), 3)
		},
		"are none where a context has ended before": func(w *world) {
			shared, _ := jointOf(w, nil)
			w.client.joints.pushing.Add(crowd)
			ended, cancel := context.WithCancel(w.Context())
			cancel()
			receipt, err := w.client.Push(ended, Job{Class: "A"})
			require.ErrorIs(w, err, context.Canceled)
			require.Equal(w, StatusNotPushed, receipt.Status, "it is certain")
			require.Equal(w, 1, w.client.joints.close(shared, DefaultQueue))
		},
		"are of one queue, and fail for no other": func(w *world) {
			w.do("SET", w.keys.Queue("odd"), "x")
			shared, outcomes := jointOf(w, map[string]context.Context{"b": w.Context()})
			_, err := w.client.Push(w.Context(), Job{Class: "A", Queue: "odd"})
			require.ErrorContains(w, err, "WRONGTYPE")
			w.client.joints.close(shared, DefaultQueue)
			w.client.sendJoint(w.Context(), shared)
			require.NoError(w, (<-outcomes["b"]).err)
		},
		"of which there are many are each stored once, whoever comes with whom": func(w *world) {
			const producers, each = 16, 50
			var group sync.WaitGroup
			for producer := range producers {
				group.Go(func() {
					for n := range each {
						jid := fmt.Sprintf("job-%d-%d", producer, n)
						receipt, err := w.client.Push(w.Context(), Job{Class: "A", JID: jid, Queue: "q" + strconv.Itoa(n%3)})
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
			require.Empty(w, w.client.joints.open)
		},
	})
}

func TestAJointWaitsForRedisAsLongAsSomebodyWantsToKnow(t *testing.T) {
	var given int
	j := joints{open: make(map[string]*joint)}
	shared := &joint{waiting: 2, giveUp: func() { given++ }}
	j.leave(shared)
	require.Zero(t, given)
	j.leave(shared)
	require.Equal(t, 1, given)
}

func TestAJointIsAsLargeAsASliceAtMost(t *testing.T) {
	j := joints{open: make(map[string]*joint)}
	large := ready{Receipt: Receipt{Queue: "a", Status: StatusQueued}}
	large.stored.Job = strings.Repeat("x", 1<<20)
	one, _, first := j.join(large, 1<<20)
	require.True(t, first)
	for n := 1; n < 4; n++ {
		same, at, first := j.join(large, 1<<20)
		require.Same(t, one, same)
		require.Equal(t, n, at)
		require.False(t, first)
	}
	_, _, first = j.join(large, 1<<20)
	require.True(t, first, "a fifth megabyte is another call's")
	require.Equal(t, 4, j.close(one, "a"))
	require.Len(t, j.open, 1, "closing the first leaves the second open")
}
