package client

import (
	"context"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// A late is a push whose first request is held up on its way, and whose reply its client has not received.
type late struct {
	*world
	receipt Receipt
	gate    *faultproxy.Gate
}

// little is time enough to send something, on a busy machine too.
const little = 2 * time.Second

// holdUp pushes a job.
func holdUp(w *world) *late {
	w.Helper()
	l := &late{world: w, gate: faultproxy.NewGate()}
	w.Cleanup(l.gate.Open)
	_, err := w.client.Push(w.Context(), RawJob{Class: "A", Queue: "other"}) // over the same connection, which is there then
	require.NoError(w, err)
	w.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: oncePushes, Nth: 1, Do: faultproxy.Hold(l.gate)})
	ctx, cancel := context.WithTimeout(w.Context(), little)
	defer cancel()
	l.receipt, err = w.client.Push(ctx, RawJob{Class: "A", JID: "late", PushOnce: true})
	require.ErrorIs(w, err, ErrUnknown)
	<-l.gate.Arrived()
	require.Empty(w, w.queue(DefaultQueue))
	return l
}

// arrive lets the request go on, and returns when Redis has executed it.
func (l *late) arrive() {
	l.Helper()
	before := l.executed()
	l.gate.Open()
	drivertest.Eventually(l, func() bool { return l.executed() == before+1 }, 20*time.Second, time.Millisecond)
}

// executed is how many pushes Redis has executed, whatever became of their answers.
func (w *world) executed() int {
	w.Helper()
	calls := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(w.do("INFO", "commandstats").(string))
	if calls == nil {
		return 0
	}
	count, err := strconv.Atoi(calls[1])
	require.NoError(w, err)
	return count
}

func (l *late) repeat() {
	l.Helper()
	receipt, err := l.client.Repeat(l.Context(), l.receipt)
	require.NoError(l, err)
	require.Equal(l, Receipt{JID: "late", Queue: DefaultQueue, Status: StatusQueued}, receipt)
}

// next pushes another job.
func (l *late) next() {
	l.Helper()
	_, err := l.client.Push(l.Context(), RawJob{Class: "A", JID: "next", PushOnce: true})
	require.NoError(l, err)
}

// giveUp drops the receipt, and waits until its scope may be used again.
func (l *late) giveUp() {
	l.Helper()
	l.receipt = Receipt{}
	l.client.awaitFree(l.T, 1)
}

// awaitFree waits until so many scopes are free.
func (c *Client) awaitFree(t *testing.T, want int) {
	t.Helper()
	drivertest.Eventually(t, func() bool {
		runtime.GC()
		c.spaces[0].scopes.mu.Lock()
		defer c.spaces[0].scopes.mu.Unlock()
		return len(c.spaces[0].scopes.free) == want
	}, 20*time.Second, time.Millisecond)
}

// A request that waits in a network or a stopped server is executed whenever that lets it go.
func TestLateRequest(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]func(w *world){
		"stores nothing behind its repetition": func(w *world) {
			l := holdUp(w)
			l.repeat()
			l.arrive()
			require.Equal(w, []string{"late"}, w.jids(DefaultQueue))
		},
		"is what its repetition finds": func(w *world) {
			l := holdUp(w)
			l.arrive()
			l.repeat()
			require.Equal(w, []string{"late"}, w.jids(DefaultQueue))
		},
		"has its scope to itself while it can be repeated": func(w *world) {
			l := holdUp(w)
			l.next()
			l.next()
			l.arrive()
			l.repeat()
			require.Equal(w, []string{"next", "next", "late"}, w.jids(DefaultQueue))
			require.Len(w, w.storedKeys(), 2)
		},
		"stores nothing behind a later push in its scope": func(w *world) {
			l := holdUp(w)
			l.repeat()
			l.next()
			l.arrive()
			require.Equal(w, []string{"late", "next"}, w.jids(DefaultQueue))
			require.Len(w, w.storedKeys(), 1)
		},
		"stores nothing when it was given up and its scope used again": func(w *world) {
			l := holdUp(w)
			l.giveUp()
			l.next()
			l.arrive()
			require.Equal(w, []string{"next"}, w.jids(DefaultQueue))
			require.Len(w, w.storedKeys(), 1)
		},
		"and is stored once when it was given up and comes first": func(w *world) {
			l := holdUp(w)
			l.giveUp()
			l.arrive()
			l.next()
			require.Equal(w, []string{"late", "next"}, w.jids(DefaultQueue))
		},
		"stores nothing though its client has ended": func(w *world) {
			l := holdUp(w)
			l.repeat()
			w.client.spaces[0].forget()
			require.Len(w, w.storedKeys(), 1, "it has to be remembered for what may be on its way")
			l.arrive()
			require.Equal(w, []string{"late"}, w.jids(DefaultQueue))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapters.Each(t, func(t *testing.T, open adapters.Opener) {
				t.Helper()
				w := newWorld(t, drivertest.Start(t), open, Config{RepeatFor: -1}) // alone there, to count what is executed
				w.knowPush()
				keep(w)
			})
		})
	}
}

// All that was sent to a stopped server is executed at once when it goes on.
func TestRepeat_toAStoppedServer(t *testing.T) {
	t.Parallel()
	for name, open := range adapters.All {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, drivertest.Start(t), open, Config{RepeatFor: -1})
			w.warm()
			before := w.proxy.Count("EVALSHA")
			w.server.Stop()
			receipt, err := w.within(func(ctx context.Context) (Receipt, error) {
				return w.client.Push(ctx, RawJob{Class: "A", JID: "job", Queue: "q", PushOnce: true})
			})
			require.ErrorIs(t, err, ErrUnknown)
			for range 3 {
				receipt, err = w.within(func(ctx context.Context) (Receipt, error) { return w.client.Repeat(ctx, receipt) })
				require.ErrorIs(t, err, ErrUnknown)
			}
			sent := w.proxy.Count("EVALSHA") - before
			if name == "go-redis" { // rueidis opens another connection, and the server does not greet it
				require.Greater(t, sent, 1, "more than one request is on its way")
			}
			w.server.Cont()
			receipt, err = w.client.Repeat(t.Context(), receipt)
			require.NoError(t, err)
			require.Equal(t, StatusQueued, receipt.Status)
			drivertest.Eventually(t, func() bool { return w.executed() >= before+sent+1 }, 20*time.Second, time.Millisecond)
			require.Equal(t, []string{"job"}, w.jids("q"))
		})
	}
}

// warm opens several connections: a stopped server greets no new one.
func (w *world) warm() {
	w.Helper()
	w.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: oncePushes, Do: faultproxy.Delay(20 * time.Millisecond)})
	var pushes sync.WaitGroup
	for range 4 {
		pushes.Go(func() {
			_, err := w.client.Push(w.Context(), RawJob{Class: "A", PushOnce: true})
			assert.NoError(w, err)
		})
	}
	pushes.Wait()
	w.proxy.Clear()
}

// within gives a call too little time for a server that does not answer.
func (w *world) within(call func(ctx context.Context) (Receipt, error)) (Receipt, error) {
	ctx, cancel := context.WithTimeout(w.Context(), little)
	defer cancel()
	return call(ctx)
}
