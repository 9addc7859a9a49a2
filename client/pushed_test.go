package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/lua"
)

// outcomes are what the callbacks of a middleware were called with, by jid.
type outcomes struct {
	mu   sync.Mutex
	seen map[string][]outcome
}

func (o *outcomes) of(jid string) []outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen[jid]
}

// watch adds a middleware that asks for the outcome of every push.
func watch(w *world) *outcomes {
	all := &outcomes{seen: map[string][]outcome{}}
	w.client.Use("watch", func(_ context.Context, j *RawJob) error {
		jid := j.JID
		j.OnPushed(func(r Receipt, err error) {
			all.mu.Lock()
			defer all.mu.Unlock()
			all.seen[jid] = append(all.seen[jid], outcome{r, err})
		})
		return nil
	})
	return all
}

// What a middleware is called with is what the caller of the push gets, once for each push.
func TestOnPushed(t *testing.T) {
	promises(t, Config{RepeatFor: -1}, map[string]func(w *world){
		"has the outcome of each single push": func(w *world) {
			all, broken := watch(w), errors.New("broken")
			w.client.Use("later", func(_ context.Context, j *RawJob) error {
				return map[string]error{"refused": Refuse("not today"), "broken": broken}[j.JID]
			})
			first := unique("x")
			receipt, err := w.client.Push(w.Context(), first)
			require.NoError(w, err)
			require.Equal(w, []outcome{{receipt, nil}}, all.of(receipt.JID))
			lost := RawJob{Class: "A", JID: "lost", PushOnce: true}
			for status, j := range map[Status]RawJob{
				StatusQueued: {Class: "A", JID: "queued"}, StatusScheduled: {Class: "A", JID: "scheduled", In: time.Hour},
				StatusRefused: {Class: "A", JID: "refused"}, StatusNotPushed: {Class: "A", JID: "broken"},
				StatusDuplicate: func() RawJob { second := first; second.JID = "duplicate"; return second }(),
			} {
				receipt, err := w.client.Push(w.Context(), j)
				require.Equal(w, status, receipt.Status)
				require.Equal(w, []outcome{{receipt, err}}, all.of(j.JID))
			}
			receipt, err = w.client.Push(w.Context(), RawJob{Class: "A", JID: "invalid", Queue: "\n"})
			require.Error(w, err)
			require.Equal(w, []outcome{{receipt, err}}, all.of("invalid"))
			w.proxy.Add(faultproxy.DropReply("EVALSHA"))
			receipt, err = w.client.Push(w.Context(), lost)
			require.ErrorIs(w, err, ErrUnknown)
			require.Len(w, all.of("lost"), 1)
			require.Equal(w, StatusUnknown, all.of("lost")[0].receipt.Status)
			require.ErrorIs(w, all.of("lost")[0].err, ErrUnknown)
			w.proxy.Clear()
			_, err = w.client.Repeat(w.Context(), receipt)
			require.NoError(w, err)
			require.Len(w, all.of("lost"), 1, "a repeat is no push of its own")
		},
		"has the outcome of each job of a bulk push": func(w *world) {
			all := watch(w)
			w.client.Use("later", func(_ context.Context, j *RawJob) error {
				if j.JID == "" || j.Class == "Refused" {
					return Refuse("not today")
				}
				return nil
			})
			jobs := slices.Repeat([]RawJob{{Class: "A"}}, lua.MaxItems+10)
			jobs[3].Class, jobs[lua.MaxItems+3].Class = "Refused", "Refused"
			w.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: "LPUSH", Nth: 2, Do: faultproxy.Close()})
			receipts, err := w.client.PushMany(w.Context(), seqOf(jobs...))
			var bulk *BulkError
			require.ErrorAs(w, err, &bulk)
			require.Equal(w, 9, bulk.Unknown)
			for i, receipt := range receipts {
				want := outcome{receipt, nil}
				if receipt.Status == StatusUnknown {
					want.err = bulk.Err
				}
				require.Equal(w, []outcome{want}, all.of(receipt.JID), "job %d", i)
			}
		},
		"has the outcome of coalesced pushes": func(w *world) {
			all := watch(w)
			shared, answers := groupOf(w.Context(), w, "a", "b")
			w.client.spaces[0].lead(w.Context(), shared, DefaultQueue)
			for jid, answer := range answers {
				require.Equal(w, []outcome{<-answer}, all.of(jid))
			}
		},
	})
}
