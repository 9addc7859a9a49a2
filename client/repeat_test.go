package client

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/lua"
)

func TestRepeat(t *testing.T) {
	// Each call sends one request.
	repeats(t, Config{RepeatFor: -1}, map[string]func(w *world){
		"stores an ambiguous push once": func(w *world) {
			for _, rule := range []faultproxy.Rule{faultproxy.DropReply(oncePushes), faultproxy.DropRequest(oncePushes)} {
				w.do("DEL", w.keys.Queue(DefaultQueue))
				w.proxy.Add(rule)
				receipt, err := w.client.Push(w.Context(), RawJob{Class: "A", PushOnce: true})
				require.ErrorIs(w, err, ErrUnknown)
				require.Equal(w, StatusUnknown, receipt.Status)
				for range 3 { // the same receipt
					again, err := w.client.Repeat(w.Context(), receipt)
					require.NoError(w, err)
					require.Equal(w, Receipt{JID: receipt.JID, Queue: DefaultQueue, Status: StatusQueued}, again)
				}
				require.Equal(w, []string{receipt.JID}, w.jids(DefaultQueue))
			}
			require.Equal(w, 4, w.proxy.Count("EVALSHA"), "what is known is not asked again")
		},
		"a job for later is scheduled once": func(w *world) {
			w.proxy.Add(faultproxy.DropReply(oncePushes))
			receipt, err := w.client.Push(w.Context(), RawJob{Class: "A", In: time.Hour, PushOnce: true})
			require.ErrorIs(w, err, ErrUnknown)
			receipt, err = w.client.Repeat(w.Context(), receipt)
			require.NoError(w, err)
			require.Equal(w, StatusScheduled, receipt.Status)
			require.Equal(w, int64(1), w.do("ZCARD", w.keys.Schedule()))
		},
		"stays unknown by a refusal, for what was sent first may be there": func(w *world) {
			w.proxy.Add(faultproxy.DropReply(oncePushes))
			receipt, err := w.client.Push(w.Context(), RawJob{Class: "A", PushOnce: true})
			require.ErrorIs(w, err, ErrUnknown)
			for _, text := range []string{"OOM command not allowed", "WRONGTYPE it is a set", "READONLY a replica"} {
				w.proxy.Add(faultproxy.Rule{Token: oncePushes, Nth: 1, Do: faultproxy.Fail(text)})
				receipt, err = w.client.Repeat(w.Context(), receipt)
				require.ErrorIs(w, err, ErrUnknown)
				require.ErrorContains(w, err, text)
				require.Equal(w, StatusUnknown, receipt.Status)
			}
			_, err = w.client.Repeat(w.Context(), receipt)
			require.NoError(w, err)
			require.Len(w, w.queue(DefaultQueue), 1)
		},
		"makes anew what has certainly failed": func(w *world) {
			w.proxy.Add(faultproxy.Rule{Token: oncePushes, Nth: 1, Do: faultproxy.Fail("LOADING not yet")})
			receipt, err := w.client.Push(w.Context(), RawJob{Class: "A", PushOnce: true})
			require.ErrorContains(w, err, "LOADING")
			require.Equal(w, StatusNotPushed, receipt.Status)
			receipt, err = w.client.Repeat(w.Context(), receipt)
			require.NoError(w, err)
			require.Equal(w, []string{receipt.JID}, w.jids(DefaultQueue))
		},
		"sends nothing that might be stored twice": func(w *world) {
			w.proxy.Add(faultproxy.DropReply("LPUSH"))
			plain, err := w.client.Push(w.Context(), RawJob{Class: "A", Queue: "plain"})
			require.ErrorIs(w, err, ErrUnknown)
			w.proxy.Add(faultproxy.DropReply(oncePushes))
			old, err := w.client.Push(w.Context(), RawJob{Class: "A", PushOnce: true})
			require.ErrorIs(w, err, ErrUnknown)
			otherClient, err := New(w.client.Driver(), w.client.Config())
			require.NoError(w, err)
			_, err = otherClient.Repeat(w.Context(), old)
			require.ErrorIs(w, err, ErrNotRepeatable, "it is another client's")
			old.unstored.push.since -= RepeatWindow
			before := w.proxy.Count("EVALSHA")
			for _, receipt := range []Receipt{plain, old} {
				again, err := w.client.Repeat(w.Context(), receipt)
				require.ErrorIs(w, err, ErrNotRepeatable)
				require.ErrorIs(w, err, ErrUnknown, "nothing more is known")
				require.Equal(w, StatusUnknown, again.Status)
			}
			require.Equal(w, before, w.proxy.Count("EVALSHA"))
			left := w.do("PTTL", w.storedKeys()[0].(string)).(int64)
			require.Greater(w, left, RepeatWindow.Milliseconds(), "Redis remembers for longer than any client repeats")
		},
		"asks nothing about what is known": func(w *world) {
			for _, status := range []Status{StatusQueued, StatusScheduled, StatusRefused} {
				receipt, err := w.client.Repeat(w.Context(), Receipt{Status: status})
				require.NoError(w, err)
				require.Equal(w, Receipt{Status: status}, receipt)
			}
			receipts, err := w.client.PushMany(w.Context(), slices.Values([]RawJob{{Class: "A", PushOnce: true}, {}}))
			require.Error(w, err)
			_, err = w.client.RepeatMany(w.Context(), receipts)
			require.ErrorIs(w, err, ErrNotRepeatable, "one of them cannot be pushed by anyone")
			require.NotErrorIs(w, err, ErrUnknown)
			require.Zero(w, w.proxy.Count("EVALSHA"))
		},
	})
}

func TestRepeatMany(t *testing.T) {
	repeats(t, Config{RepeatFor: -1}, map[string]func(w *world){
		"sends a slice once for all its receipts, and that which was read meanwhile": func(w *world) {
			for _, rule := range []faultproxy.Rule{faultproxy.DropReply(oncePushes), faultproxy.DropRequest(oncePushes)} {
				w.do("DEL", w.keys.Queue("a"))
				w.proxy.Add(rule)
				receipts, err := w.client.PushMany(w.Context(), repeatable(sequence(2*lua.MaxItems, new(int), "a")))
				require.ErrorIs(w, err, ErrUnknown)
				require.Equal(w, slices.Concat(repeat(StatusUnknown, lua.MaxItems), repeat(StatusNotPushed, lua.MaxItems)), statuses(receipts))
				before := w.proxy.Count("EVALSHA")
				receipts, err = w.client.RepeatMany(w.Context(), receipts)
				require.NoError(w, err)
				require.Equal(w, repeat(StatusQueued, 2*lua.MaxItems), statuses(receipts))
				numbers, _ := w.numbers("a")
				require.Len(w, numbers, 2*lua.MaxItems)
				require.Equal(w, fmt.Sprint(lua.MaxItems), numbers[lua.MaxItems], "in order")
				require.Equal(w, before+2, w.proxy.Count("EVALSHA"))
			}
		},
		"repeats all that can be, up to one that is still unknown": func(w *world) {
			w.proxy.Add(faultproxy.DropReply("LPUSH"))
			plain, err := w.client.Push(w.Context(), RawJob{Class: "A", Queue: "plain"})
			require.ErrorIs(w, err, ErrUnknown)
			receipts := []Receipt{plain, plain}
			for range 4 {
				w.proxy.Add(faultproxy.DropReply(oncePushes))
				receipt, err := w.client.Push(w.Context(), RawJob{Class: "A", PushOnce: true})
				require.ErrorIs(w, err, ErrUnknown)
				receipts = append(receipts, receipt)
			}
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: oncePushes, Nth: 2, Do: faultproxy.Close()})
			before := w.proxy.Count("EVALSHA")
			again, err := w.client.RepeatMany(w.Context(), receipts)
			require.ErrorIs(w, err, ErrUnknown)
			require.Equal(w, 1, strings.Count(err.Error(), ErrNotRepeatable.Error()), "it is reported once")
			require.Equal(w, before+2, w.proxy.Count("EVALSHA"))
			want := repeat(StatusUnknown, 6)
			want[2] = StatusQueued
			require.Equal(w, want, statuses(again))
			again, err = w.client.RepeatMany(w.Context(), again)
			require.ErrorIs(w, err, ErrNotRepeatable)
			require.Equal(w, slices.Concat(repeat(StatusUnknown, 2), repeat(StatusQueued, 4)), statuses(again))
			require.Len(w, w.queue(DefaultQueue), 4)
		},
	})
}
