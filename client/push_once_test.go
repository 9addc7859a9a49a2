package client

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
)

// oncePushes is in every request of a push with a number, and in no other.
const oncePushes = "belay:pushes:"

// storedKeys are the keys by which Redis remembers pushes.
func (w *world) storedKeys() []any {
	w.Helper()
	return w.do("KEYS", strings.ReplaceAll(w.keys.IdempotencyScope("*", 0), ":0", ":*")).([]any)
}

// jids are the ids of the jobs in a queue, in the order in which they will be taken.
func (w *world) jids(queue string) []string {
	w.Helper()
	var jids []string
	for _, payload := range w.queue(queue) {
		parsed, err := job.Parse(payload)
		require.NoError(w, err)
		jids = append(jids, parsed.JID())
	}
	return jids
}

// repeats is promises on a server that knows the script: the first reply to a push is then that it is stored.
func repeats(t *testing.T, cfg Config, these map[string]func(w *world)) {
	known := make(map[string]func(w *world))
	for name, keep := range these {
		known[name] = func(w *world) {
			w.knowPush()
			keep(w)
		}
	}
	promises(t, cfg, known)
}

func (w *world) knowPush() {
	w.Helper()
	text, _ := w.keys.Push(nil, nil).Call.Script.Text(true)
	w.do("SCRIPT", "LOAD", text)
}

// repeatable makes all of these jobs so.
func repeatable(jobs iter.Seq[RawJob]) iter.Seq[RawJob] {
	return func(yield func(RawJob) bool) {
		for j := range jobs {
			j.PushOnce = true
			if !yield(j) {
				return
			}
		}
	}
}

// lossy loses so many of a hundred requests and of a hundred replies, at random, for the first frames of each
// direction.
func lossy(percent, frames int) []faultproxy.Rule {
	random := rand.New(rand.NewPCG(7, 11))
	var rules []faultproxy.Rule
	for _, on := range []faultproxy.Direction{faultproxy.Requests, faultproxy.Replies} {
		lost := 0
		for frame := range frames {
			if random.IntN(100) < percent {
				// A rule does not count the frames that those before it have lost.
				rules = append(rules, faultproxy.Rule{On: on, Token: oncePushes, Nth: frame + 1 - lost, Do: faultproxy.Close()})
				lost++
			}
		}
	}
	return rules
}

func TestRepeatable(t *testing.T) {
	repeats(t, Config{}, map[string]func(w *world){
		"a lost reply or request is no more than a delay": func(w *world) {
			for i, rule := range []faultproxy.Rule{faultproxy.DropReply(oncePushes), faultproxy.DropRequest(oncePushes)} {
				w.proxy.Add(rule)
				receipt, err := w.client.Push(w.Context(), RawJob{Class: "A", PushOnce: true})
				require.NoError(w, err)
				require.Equal(w, Receipt{JID: receipt.JID, Queue: DefaultQueue, Status: StatusQueued}, receipt)
				require.Equal(w, receipt.JID, w.jids(DefaultQueue)[i])
			}
			require.Len(w, w.queue(DefaultQueue), 2)
			require.Len(w, w.storedKeys(), 1)
		},
		"a thousand pushes of which a fifth is lost, and of the answers too, are a thousand jobs": func(w *world) {
			w.proxy.Add(lossy(20, 3000)...)
			var pushed []string
			for i := range 1000 {
				receipt, err := w.client.Push(w.Context(), RawJob{Class: "A", Args: []any{i}, PushOnce: true})
				for err != nil {
					receipt, err = w.client.Repeat(w.Context(), receipt)
				}
				pushed = append(pushed, receipt.JID)
			}
			require.Equal(w, pushed, w.jids(DefaultQueue))
			require.Len(w, w.storedKeys(), 1, "one push at a time was under way")
			require.Greater(w, w.proxy.Count("EVALSHA"), 1400, "the proxy lost too little")
		},
		"so are a thousand in slices": func(w *world) {
			w.proxy.Add(lossy(20, 100)...)
			drawn := 0
			receipts, err := w.client.PushMany(w.Context(), repeatable(sequence(1000, &drawn, "a", "b")))
			require.NoError(w, err)
			require.Equal(w, repeat(StatusQueued, 1000), statuses(receipts))
			for q, queue := range []string{"a", "b"} {
				numbers, _ := w.numbers(queue)
				require.Len(w, numbers, 500)
				for i, number := range numbers {
					require.Equal(w, fmt.Sprint(2*i+q), number)
				}
			}
			require.Greater(w, w.proxy.Count("EVALSHA"), 4, "the proxy lost nothing")
		},
		"who does not ask for it pays nothing": func(w *world) {
			_, err := w.client.Push(w.Context(), RawJob{Class: "A"})
			require.NoError(w, err)
			require.Zero(w, w.proxy.Count("EVALSHA"))
			require.Empty(w, w.storedKeys())
		},
		"middleware may ask for it": func(w *world) {
			w.client.Use("once", func(_ context.Context, j *RawJob) error {
				j.PushOnce = true
				return nil
			})
			w.proxy.Add(faultproxy.DropReply(oncePushes))
			_, err := w.client.Push(w.Context(), RawJob{Class: "A"})
			require.NoError(w, err)
			require.Len(w, w.queue(DefaultQueue), 1)
		},
		"a slice is repeatable when one of its jobs is": func(w *world) {
			w.proxy.Add(faultproxy.DropReply(oncePushes))
			receipts, err := w.client.PushMany(w.Context(), slices.Values([]RawJob{{Class: "A"}, {Class: "A", PushOnce: true}, {Class: "A"}}))
			require.NoError(w, err)
			require.Len(w, receipts, 3)
			require.Len(w, w.queue(DefaultQueue), 3)
		},
	})
}

// Many at once share scopes, and lose nothing to each other.
func TestRepeatable_fiftyAtOnce(t *testing.T) {
	const goroutines, each = 50, 20
	repeats(t, Config{}, map[string]func(w *world){
		"over a bad line": func(w *world) {
			w.proxy.Add(lossy(20, 3000)...)
			var mu sync.Mutex
			var pushed []string
			var pushers sync.WaitGroup
			for range goroutines {
				pushers.Go(func() {
					for range each {
						receipt, err := w.client.Push(w.Context(), RawJob{Class: "A", PushOnce: true})
						for err != nil && w.Context().Err() == nil {
							receipt, err = w.client.Repeat(w.Context(), receipt)
						}
						mu.Lock()
						pushed = append(pushed, receipt.JID)
						mu.Unlock()
					}
				})
			}
			pushers.Wait()
			require.ElementsMatch(w, pushed, w.jids(DefaultQueue))
			require.Len(w, pushed, goroutines*each)
			require.LessOrEqual(w, len(w.storedKeys()), goroutines)
		},
	})
}

func TestRepeatable_endsWhen(t *testing.T) {
	repeats(t, Config{}, map[string]func(w *world){
		"the context does": func(w *world) {
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: oncePushes, Do: faultproxy.Close()})
			ctx, cancel := context.WithTimeout(w.Context(), 4*time.Second)
			defer cancel()
			receipt, err := w.client.Push(ctx, RawJob{Class: "A", PushOnce: true})
			require.ErrorIs(w, err, ErrUnknown)
			require.Equal(w, StatusUnknown, receipt.Status)
			require.Equal(w, []string{receipt.JID}, w.jids(DefaultQueue))
		},
		"its time does": func(w *world) {
			w.client.cfg.RepeatFor = 5 * time.Second
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: oncePushes, Do: faultproxy.Close()})
			_, err := w.client.Push(w.Context(), RawJob{Class: "A", PushOnce: true})
			require.ErrorIs(w, err, ErrUnknown)
			require.Greater(w, w.proxy.Count("EVALSHA"), 1)
			require.Len(w, w.queue(DefaultQueue), 1)
		},
		"it has certainly failed: there is nothing to find out": func(w *world) {
			w.proxy.Add(faultproxy.Rule{Token: oncePushes, Do: faultproxy.Fail("OOM command not allowed")})
			receipt, err := w.client.Push(w.Context(), RawJob{Class: "A", PushOnce: true})
			require.ErrorIs(w, err, ErrFull)
			require.NotErrorIs(w, err, ErrUnknown)
			require.Equal(w, StatusNotPushed, receipt.Status)
			require.Equal(w, 1, w.proxy.Count("EVALSHA"))
		},
		"the server that was restarting has loaded its data": func(w *world) {
			w.proxy.Add(faultproxy.DropRequest(oncePushes))
			for range 3 {
				w.proxy.Add(faultproxy.Rule{Token: oncePushes, Nth: 1, Do: faultproxy.Fail("LOADING not yet")})
			}
			_, err := w.client.Push(w.Context(), RawJob{Class: "A", PushOnce: true})
			require.NoError(w, err)
			require.Equal(w, 5, w.proxy.Count("EVALSHA"))
			require.Len(w, w.queue(DefaultQueue), 1)
		},
	})
}

// What was never sent is not unknown.
func TestPushOnceWhoseTimeIsOverIsNotPushed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drivertest.Redis(t), adapters.All["go-redis"], Config{})
	over, end := context.WithCancel(t.Context())
	end()
	for range 50 {
		receipt, err := w.client.Push(over, RawJob{Class: "A", PushOnce: true})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrUnknown)
		require.Equal(t, StatusNotPushed, receipt.Status)
	}
}

func TestRepeatable_waitsForRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drivertest.Redis(t), adapters.All["go-redis"], Config{})
	for range maxOnce {
		require.NoError(t, w.client.spaces[0].scopes.enter(t.Context()))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	receipt, err := w.client.Push(ctx, RawJob{Class: "A", PushOnce: true})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, ErrUnknown)
	require.Equal(t, StatusNotPushed, receipt.Status)
	w.client.spaces[0].scopes.leave()
	receipt, err = w.client.Repeat(t.Context(), receipt)
	require.NoError(t, err)
	require.Equal(t, []string{receipt.JID}, w.jids(DefaultQueue))
}
