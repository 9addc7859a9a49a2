package client

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/lua"
)

// waited is what a Wait returned.
type waited struct {
	tracked Tracked
	err     error
}

// wait begins a Wait.
func (w *world) wait(jid string) <-chan waited {
	ended := make(chan waited, 1)
	go func() {
		tracked, err := w.client.Wait(context.WithoutCancel(w.Context()), jid)
		ended <- waited{tracked, err}
	}()
	return ended
}

// come returns what a Wait returns, which must not need a poll.
func (w *world) come(ended <-chan waited) waited {
	w.Helper()
	select {
	case got := <-ended:
		return got
	case <-time.After(pollEvery - 2*time.Second):
		w.Fatal("the Wait did not return before the poll")
		return waited{}
	}
}

func TestWait(t *testing.T) {
	promises(t, Config{}, map[string]func(w *world){
		"misses nothing that ends before its subscription has begun": func(w *world) {
			read, subscription := faultproxy.NewGate(), faultproxy.NewGate()
			w.proxy.Add(
				faultproxy.Rule{On: faultproxy.Replies, Token: "it-j", Nth: 1, Do: faultproxy.Hold(read)},
				faultproxy.Rule{On: faultproxy.Requests, Token: w.keys.Ended(), Do: faultproxy.Hold(subscription)},
			)
			ended := w.wait("j")
			<-read.Arrived()
			<-subscription.Arrived()
			w.do("HSET", w.keys.Iteration("j"), lua.FieldState, "done")
			read.Open()
			subscription.Open()
			require.Equal(w, waited{tracked: Tracked{JID: "j", State: TrackDone}}, w.come(ended))
		},
		"refuses an empty jid at once, as that of a push that has failed": func(w *world) {
			require.ErrorContains(w, w.come(w.wait("")).err, "the jid is empty")
		},
		"returns at once what has ended, and how": func(w *world) {
			w.do("HSET", w.keys.Iteration("j"), lua.FieldState, "cancelled")
			got := w.come(w.wait("j"))
			var ended *EndedError
			require.ErrorAs(w, got.err, &ended)
			require.Equal(w, EndedError{JID: "j", State: TrackCancelled}, *ended)
		},
		"of many callers reads each job once, or twice where the subscription came between": func(w *world) {
			var all sync.WaitGroup
			for n := range 200 {
				w.do("HSET", w.keys.Iteration(strconv.Itoa(n)), lua.FieldState, "done", lua.FieldResult, strconv.Itoa(n))
			}
			for n := range 200 {
				all.Go(func() {
					if got := w.come(w.wait(strconv.Itoa(n))); got.err != nil || string(got.tracked.Result) != strconv.Itoa(n) {
						w.Errorf("%d: %v", n, got)
					}
				})
			}
			all.Wait()
			require.LessOrEqual(w, w.proxy.Count("HMGET"), 400)
		},
		"of many callers ends within ten seconds though no message comes": func(w *world) {
			const many = 600
			w.wait("first")
			for w.proxy.Count("HMGET") < 2 { // the second time when it has subscribed
				time.Sleep(time.Millisecond)
			}
			ends := make([]<-chan waited, many)
			for n := range many {
				ends[n] = w.wait(strconv.Itoa(n))
			}
			for w.proxy.Count("HMGET") < 2+many { // all are known not to have ended
				time.Sleep(time.Millisecond)
			}
			for n := range many {
				w.do("HSET", w.keys.Iteration(strconv.Itoa(n)), lua.FieldState, "done")
			}
			late := time.After(pollEvery + 5*time.Second)
			for n, end := range ends {
				select {
				case got := <-end:
					require.NoError(w, got.err)
				case <-late:
					w.Fatal("a poll has not read job ", n)
				}
			}
		},
		"waits an outage out": func(w *world) {
			refused := faultproxy.Rule{On: faultproxy.Requests, Token: "it-j", Do: faultproxy.Close()}
			w.proxy.Add(refused)
			ended := w.wait("j")
			for w.proxy.Count("HMGET") < 2 {
				time.Sleep(time.Millisecond)
			}
			w.do("HSET", w.keys.Iteration("j"), lua.FieldState, "done")
			w.proxy.Clear()
			require.NoError(w, w.come(ended).err)
		},
		"ends with its client, and is refused by a closed one": func(w *world) {
			ended := w.wait("j")
			for w.proxy.Count("HMGET") == 0 {
				time.Sleep(time.Millisecond)
			}
			require.NoError(w, w.client.Close())
			require.ErrorIs(w, w.come(ended).err, errClosed)
			require.ErrorIs(w, w.come(w.wait("j")).err, errClosed)
		},
		"of a key of another type is an error": func(w *world) {
			w.do("SET", w.keys.Iteration("j"), "x")
			require.ErrorContains(w, w.come(w.wait("j")).err, "WRONGTYPE")
		},
	})
}
