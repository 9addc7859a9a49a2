package client

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

func (w *world) prepare(j RawJob) Prepared {
	w.Helper()
	p, receipt, err := w.client.Prepare(w.Context(), j)
	require.NoError(w, err)
	require.Equal(w, StatusPrepared, receipt.Status)
	return p
}

func (w *world) pushPrepared(number int64, mark string, jobs ...Prepared) ([]Receipt, error) {
	return w.client.PushPrepared(w.Context(), IdempotencyKey{Scope: "outbox", Number: number, Mark: mark}, jobs)
}

func TestPreparedJobs(t *testing.T) {
	promises(t, Config{}, map[string]func(w *world){
		"are complete before anything is sent, and pushed as they were prepared": func(w *world) {
			type tenant struct{}
			w.client.Use("meta", func(ctx context.Context, j *RawJob) error {
				j.Meta = map[string]string{"tenant": ctx.Value(tenant{}).(string)}
				return nil
			})
			p, receipt, err := w.client.Prepare(context.WithValue(w.Context(), tenant{}, "acme"), RawJob{Class: "A", Args: []any{1}, Queue: "mail"})
			require.NoError(w, err)
			require.Zero(w, w.proxy.Accepted(), "nothing is sent")
			require.Equal(w, Receipt{JID: receipt.JID, Queue: "mail", Status: StatusPrepared}, receipt)

			receipts, err := w.pushPrepared(1, "m", p)
			require.NoError(w, err)
			require.NotZero(w, w.proxy.Accepted())
			require.Equal(w, []Receipt{{JID: receipt.JID, Queue: "mail", Status: StatusQueued}}, receipts)
			stored, err := job.Parse(w.queue("mail")[0])
			require.NoError(w, err)
			require.Equal(w, map[string]string{"tenant": "acme"}, stored.Meta())
			before, err := job.Parse(p.Payload)
			require.NoError(w, err)
			enqueued, _ := stored.Field("enqueued_at")
			require.Equal(w, stored.Raw(), before.Patch(job.Edit{Name: "enqueued_at", JSON: enqueued}), "only this field differs")
			require.Contains(w, w.do("SMEMBERS", w.keys.Queues()), "mail")
		},
		"are stored once, however often they are pushed": func(w *world) {
			one, two := w.prepare(RawJob{Class: "A", Queue: "a"}), w.prepare(RawJob{Class: "A", Queue: "b", In: time.Hour})
			for range 3 {
				_, err := w.pushPrepared(7, "m", one, two)
				require.NoError(w, err)
			}
			require.Len(w, w.queue("a"), 1)
			require.EqualValues(w, 1, w.do("ZCARD", w.keys.Schedule()))
		},
		"also when replies are lost": func(w *world) {
			p := w.prepare(RawJob{Class: "A"})
			_, err := w.pushPrepared(1, "m")
			require.NoError(w, err)
			w.proxy.Add(faultproxy.DropReply(oncePushes))
			receipts, err := w.pushPrepared(2, "m", p)
			require.ErrorIs(w, err, ErrUnknown)
			require.Equal(w, []Status{StatusUnknown}, statuses(receipts))
			_, err = w.pushPrepared(2, "m", p)
			require.NoError(w, err)
			require.Len(w, w.queue(DefaultQueue), 1)
		},
		"of an earlier number, or of another push with this one, are not stored": func(w *world) {
			p := w.prepare(RawJob{Class: "A"})
			_, err := w.pushPrepared(2, "m", p)
			require.NoError(w, err)
			for number, mark := range map[int64]string{1: "m", 2: "other"} {
				_, err = w.pushPrepared(number, mark, w.prepare(RawJob{Class: "A"}))
				require.ErrorIs(w, err, ErrStale)
			}
			require.Len(w, w.queue(DefaultQueue), 1)
		},
		"of other jobs under the same key are not answered as stored": func(w *world) {
			p := w.prepare(RawJob{Class: "A"})
			_, err := w.pushPrepared(1, "m", p)
			require.NoError(w, err)
			for _, jobs := range [][]Prepared{{w.prepare(RawJob{Class: "A"})}, {p, w.prepare(RawJob{Class: "A"})}, nil} {
				_, err := w.pushPrepared(1, "m", jobs...)
				require.ErrorIs(w, err, ErrStale)
			}
			require.Len(w, w.queue(DefaultQueue), 1)
		},
		"may be repeated after any time": func(w *world) {
			_, err := w.pushPrepared(1, "m", w.prepare(RawJob{Class: "A"}))
			require.NoError(w, err)
			left, _ := w.do("PTTL", w.keys.IdempotencyScope("outbox", 0)).(int64)
			require.Greater(w, time.Duration(left)*time.Millisecond, 99*365*24*time.Hour)
		},
		"are due at their time, counted from when they were prepared": func(w *world) {
			begun := time.Now()
			soon, late := w.prepare(RawJob{Class: "A", In: time.Millisecond}), w.prepare(RawJob{Class: "A", In: time.Hour})
			require.WithinRange(w, late.At, begun.Add(time.Hour), time.Now().Add(time.Hour))
			require.NotContains(w, late.Payload, "enqueued_at")
			time.Sleep(time.Until(soon.At))
			receipts, err := w.pushPrepared(1, "m", soon, late)
			require.NoError(w, err)
			require.Equal(w, []Status{StatusQueued, StatusScheduled}, statuses(receipts))
			require.Contains(w, w.queue(DefaultQueue)[0], "enqueued_at")
			score, err := strconv.ParseFloat(w.do("ZSCORE", w.keys.Schedule(), late.Payload).(string), 64)
			require.NoError(w, err)
			require.InDelta(w, float64(late.At.UnixMicro())/1e6, score, 2e-6)
		},
		"that are unique take their lock when they are pushed": func(w *world) {
			rule := &dedup.Rule{Until: dedup.UntilExecuted}
			first, second := w.prepare(RawJob{Class: "A", Unique: rule}), w.prepare(RawJob{Class: "A", Unique: rule})
			marked := w.prepare(RawJob{Class: "A", Unique: &dedup.Rule{Until: dedup.UntilExecuted, MarkDuplicates: true}})
			later := w.prepare(RawJob{Class: "A", Unique: rule, In: time.Hour})
			for range 2 {
				receipts, err := w.pushPrepared(1, "m", first, second, marked, later)
				require.NoError(w, err)
				require.Equal(w, []Status{StatusQueued, StatusDuplicate, StatusQueued, StatusScheduled}, statuses(receipts))
				require.Equal(w, receipts[0].JID, receipts[1].Holder)
				require.Equal(w, receipts[0].JID, receipts[2].Holder)
			}
			require.Len(w, w.queue(DefaultQueue), 2)
		},
		"are refused like pushed ones": func(w *world) {
			w.client.Use("switch", func(_ context.Context, j *RawJob) error {
				if j.Queue == "closed" {
					return Refuse("closed")
				}
				return nil
			})
			p, receipt, err := w.client.Prepare(w.Context(), RawJob{Class: "A", Queue: "closed"})
			require.NoError(w, err)
			require.Empty(w, p)
			require.Equal(w, StatusRefused, receipt.Status)
			var invalid *InvalidError
			_, receipt, err = w.client.Prepare(w.Context(), RawJob{})
			require.ErrorAs(w, err, &invalid)
			require.Equal(w, StatusNotPushed, receipt.Status)
		},
		"that are not readable, or too many, are not sent": func(w *world) {
			good := w.prepare(RawJob{Class: "A"})
			_, err := w.pushPrepared(1, "m", good, Prepared{Payload: "{"})
			require.ErrorContains(w, err, "prepared job 2 of 2")
			_, err = w.pushPrepared(1, "m", Prepared{Payload: good.Payload[:len(good.Payload)-1] + `,"belay_unique":{}}`})
			require.Error(w, err)
			_, err = w.pushPrepared(1, "m", make([]Prepared, lua.MaxItems+1)...)
			require.Error(w, err)
			_, err = w.pushPrepared(1, "m", slices.Repeat([]Prepared{good}, lua.MaxItems+1)...)
			require.ErrorContains(w, err, "at most 256")
			require.Empty(w, w.queue(DefaultQueue))
		},
		"report their outcome to middleware that asked for it": func(w *world) {
			var outcome Receipt
			w.client.Use("span", func(_ context.Context, j *RawJob) error {
				j.OnPushed(func(r Receipt, _ error) { outcome = r })
				return nil
			})
			w.prepare(RawJob{Class: "A"})
			require.Equal(w, StatusPrepared, outcome.Status)
		},
	})
}
