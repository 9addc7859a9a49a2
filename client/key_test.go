package client

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// event is a job that is stored once for its key.
func event(key string, args ...any) RawJob {
	return RawJob{Class: "Webhook", Args: args, Key: key, KeyFor: time.Hour}
}

// keyLock is the lock of a key: its holder, and how long it stays.
func (w *world) keyLock(key string) (holder lua.Holder, left time.Duration) {
	w.Helper()
	digest, err := dedup.KeyDigest(key)
	require.NoError(w, err)
	value, _ := w.do("GET", w.keys.Lock(digest)).(string)
	holder, _ = lua.HolderOf(value)
	ms, _ := w.do("PTTL", w.keys.Lock(digest)).(int64)
	return holder, time.Duration(ms) * time.Millisecond
}

func (w *world) mustPush(j RawJob) Receipt {
	w.Helper()
	receipt, err := w.client.Push(w.Context(), j)
	require.NoError(w, err)
	return receipt
}

func TestKey(t *testing.T) {
	promises(t, Config{DeduplicateIdempotent: true}, map[string]func(w *world){
		"stores one job, whatever the others are, and names it": func(w *world) {
			first := w.mustPush(event("evt_1", 1))
			require.Equal(w, StatusQueued, first.Status)
			require.NotContains(w, w.queue(DefaultQueue)[0], "evt_1")
			require.NotContains(w, w.queue(DefaultQueue)[0], dedup.FieldName)
			other := RawJob{Class: "Other", Queue: "low", In: time.Hour, Key: "evt_1"}
			receipt := w.mustPush(other)
			require.Equal(w, Receipt{JID: receipt.JID, Queue: "low", Status: StatusDuplicate, Holder: first.JID}, receipt)
			require.Equal(w, StatusQueued, w.mustPush(event("evt_2", 1)).Status)
			require.Equal(w, StatusQueued, w.mustPush(RawJob{Class: "Webhook", Args: []any{1}}).Status)
			require.Len(w, w.queue(DefaultQueue), 3)
			require.Zero(w, w.do("ZCARD", w.keys.Schedule()))
			holder, left := w.keyLock("evt_1")
			require.Equal(w, first.JID, holder.JID)
			require.True(w, holder.Kept)
			require.Equal(w, "Webhook", holder.Class)
			require.InDelta(w, time.Hour, left, float64(time.Minute))
		},
		"has any bytes": func(w *world) {
			key := "\x00\xff\n " + strings.Repeat("k", 1000)
			first := w.mustPush(event(key))
			require.Equal(w, first.JID, w.mustPush(event(key)).Holder)
		},
		"is remembered for a day unless the job says otherwise": func(w *world) {
			w.mustPush(RawJob{Class: "A", Key: "k"})
			_, left := w.keyLock("k")
			require.InDelta(w, dedup.DefaultKeyFor, left, float64(time.Minute))
		},
		"is remembered after the job is gone, and also for its own jid": func(w *world) {
			mine := event("evt_1")
			mine.JID = "mine"
			require.Equal(w, StatusQueued, w.mustPush(mine).Status)
			again := w.mustPush(mine)
			require.Equal(w, StatusDuplicate, again.Status)
			require.Equal(w, "mine", again.Holder)
			w.do("DEL", w.keys.Queue(DefaultQueue))
			require.Equal(w, "mine", w.mustPush(mine).Holder)
			require.Equal(w, "mine", w.mustPush(event("evt_1")).Holder)
			require.Empty(w, w.queue(DefaultQueue))
		},
		"is free after its time": func(w *world) {
			brief := event("evt_1")
			brief.KeyFor = 50 * time.Millisecond
			first := w.mustPush(brief)
			require.Equal(w, StatusQueued, first.Status)
			drivertest.Eventually(w, func() bool { _, left := w.keyLock("evt_1"); return left < 0 }, 10*time.Second, time.Millisecond)
			require.Equal(w, StatusQueued, w.mustPush(brief).Status)
			require.Len(w, w.queue(DefaultQueue), 2)
		},
		"counts from when a job for later is due": func(w *world) {
			in, at := event("in"), event("at")
			in.In, at.At = 5*time.Hour, time.Now().Add(7*time.Hour)
			for key, j := range map[string]RawJob{"in": in, "at": at} {
				first := w.mustPush(j)
				require.Equal(w, StatusScheduled, first.Status)
				require.Equal(w, first.JID, w.mustPush(event(key)).Holder)
			}
			require.EqualValues(w, 2, w.do("ZCARD", w.keys.Schedule()))
			_, left := w.keyLock("in")
			require.InDelta(w, 6*time.Hour, left, float64(time.Minute))
			_, left = w.keyLock("at")
			require.InDelta(w, 8*time.Hour, left, float64(time.Minute))
		},
		"in a bulk stores the first of each, across slices and bulks": func(w *world) {
			var jobs []RawJob
			for n := range 2 * lua.MaxItems {
				jobs = append(jobs, event("evt_"+strconv.Itoa(n%300)))
			}
			receipts, err := w.client.PushMany(w.Context(), slices.Values(jobs))
			require.NoError(w, err)
			for n, receipt := range receipts {
				if n < 300 {
					require.Equal(w, StatusQueued, receipt.Status, n)
					continue
				}
				require.Equal(w, StatusDuplicate, receipt.Status, n)
				require.Equal(w, receipts[n%300].JID, receipt.Holder)
			}
			again, err := w.client.PushMany(w.Context(), slices.Values([]RawJob{event("evt_7"), {Class: "Plain"}, event("new"), event("new")}))
			require.NoError(w, err)
			require.Equal(w, []Status{StatusDuplicate, StatusQueued, StatusQueued, StatusDuplicate}, statuses(again))
			require.Equal(w, receipts[7].JID, again[0].Holder)
			require.Equal(w, again[2].JID, again[3].Holder)
			require.Len(w, w.queue(DefaultQueue), 302)
		},
		"makes a push safe after an unknown outcome": func(w *world) {
			w.proxy.Add(faultproxy.DropReply("Webhook"))
			first, err := w.client.Push(w.Context(), event("evt_1"))
			require.ErrorIs(w, err, ErrUnknown)
			second := w.mustPush(event("evt_1")) // by another request, or another process
			require.Equal(w, StatusDuplicate, second.Status)
			require.Equal(w, first.JID, second.Holder)
			require.Len(w, w.queue(DefaultQueue), 1)
		},
		"and PushOnce answer a repeated push as the first one": func(w *world) {
			once := event("evt_1")
			once.PushOnce = true
			w.proxy.Add(faultproxy.DropReply("Webhook"))
			first := w.mustPush(once)
			require.Equal(w, StatusQueued, first.Status, "not its own duplicate")
			w.proxy.Add(faultproxy.DropReply("Webhook"))
			second := w.mustPush(once)
			require.Equal(w, Receipt{JID: second.JID, Queue: DefaultQueue, Status: StatusDuplicate, Holder: first.JID}, second)
			again, err := w.client.Repeat(w.Context(), second)
			require.NoError(w, err)
			require.Equal(w, second, again)
			require.Len(w, w.queue(DefaultQueue), 1)
		},
		"with Unique takes both locks or none, and the key refuses first": func(w *world) {
			both := func(key string, args ...any) RawJob {
				j := event(key, args...)
				j.Unique, j.KeyFor = &dedup.Rule{Until: dedup.UntilExecuted, RescheduleOnce: true}, 2*time.Hour
				return j
			}
			first := w.mustPush(both("evt_1", 1))
			require.Equal(w, StatusQueued, first.Status)
			holder, left := w.keyLock("evt_1")
			require.Equal(w, first.JID, holder.JID)
			require.True(w, holder.Kept)
			require.InDelta(w, 2*time.Hour, left, float64(time.Minute))
			require.Contains(w, w.queue(DefaultQueue)[0], dedup.FieldName, "the run frees the lock of Unique")
			require.Equal(w, int64(2), w.do("ZCARD", w.keys.Unique()), "operators see both")
			refused := func(j RawJob) {
				w.Helper()
				receipt := w.mustPush(j)
				require.Equal(w, Receipt{JID: receipt.JID, Queue: DefaultQueue, Status: StatusDuplicate, Holder: first.JID}, receipt)
			}
			refused(both("evt_2", 1))
			holder, _ = w.keyLock("evt_2")
			require.Empty(w, holder.JID, "a job that Unique refuses leaves its key free")
			refused(both("evt_1", 2))
			require.Equal(w, int64(2), w.do("ZCARD", w.keys.Unique()), "a job that its key refuses takes no lock of Unique")
			require.Equal(w, StatusQueued, w.mustPush(both("evt_2", 2)).Status)

			bulk, err := w.client.PushMany(w.Context(), slices.Values([]RawJob{
				both("evt_3", 3), both("evt_3", 4), both("evt_4", 3), both("evt_4", 4), event("evt_5", 5), {Class: "Plain"},
			}))
			require.NoError(w, err)
			var got []Status
			for _, receipt := range bulk {
				got = append(got, receipt.Status)
			}
			require.Equal(w, []Status{StatusQueued, StatusDuplicate, StatusDuplicate, StatusQueued, StatusQueued, StatusQueued}, got)
			later := both("evt_6", 6)
			later.In = time.Hour
			require.Equal(w, StatusScheduled, w.mustPush(later).Status, "without the lock of Unique, which it takes when it is due")
			_, left = w.keyLock("evt_6")
			require.InDelta(w, 3*time.Hour, left, float64(time.Minute))
			marked := both("evt_7", 7)
			marked.Unique.MarkDuplicates, marked.Unique.RescheduleOnce = true, false
			_, err = w.client.Push(w.Context(), marked)
			require.ErrorContains(w, err, "MarkDuplicates stores them")
			_, _, err = w.client.Prepare(w.Context(), both("evt_8", 8))
			require.ErrorContains(w, err, "a prepared job has one lock")
		},
		"ends the client's rule for idempotent classes": func(w *world) {
			idempotent := event("evt_1", 1)
			idempotent.Idempotent = true
			w.mustPush(idempotent)
			require.NotContains(w, w.queue(DefaultQueue)[0], dedup.FieldName)
			idempotent.Key = "evt_2"
			require.Equal(w, StatusQueued, w.mustPush(idempotent).Status, "equal arguments do not count")
		},
		"that holds nothing is an error of the push": func(w *world) {
			for want, change := range map[string]func(j *RawJob){
				"above 0": func(j *RawJob) { j.KeyFor = -1 },
				"1024":    func(j *RawJob) { j.Key = strings.Repeat("k", 1025) },
			} {
				bad := event("evt_1")
				change(&bad)
				_, err := w.client.Push(w.Context(), bad)
				require.ErrorContains(w, err, want)
			}
			require.Empty(w, w.queue(DefaultQueue))
		},
		"of a prepared job is taken when it is pushed, and not stored": func(w *world) {
			late := event("evt_2")
			late.In = time.Hour
			first, second, third := w.prepare(event("evt_1", 1)), w.prepare(event("evt_1", 2)), w.prepare(late)
			_, left := w.keyLock("evt_1")
			require.Negative(w, left)
			for range 2 {
				receipts, err := w.pushPrepared(1, "m", first, second, third)
				require.NoError(w, err)
				require.Equal(w, []Status{StatusQueued, StatusDuplicate, StatusScheduled}, statuses(receipts))
				require.Equal(w, receipts[0].JID, receipts[1].Holder)
			}
			stored := slices.Concat(w.queue(DefaultQueue), []string{w.do("ZRANGE", w.keys.Schedule(), "0", "-1").([]any)[0].(string)})
			require.Len(w, stored, 2)
			for _, payload := range stored {
				require.NotContains(w, payload, dedup.FieldName)
				_, err := job.Parse(payload)
				require.NoError(w, err)
			}
			require.Equal(w, StatusDuplicate, w.mustPush(event("evt_2")).Status)
			receipts, err := w.pushPrepared(2, "m", w.prepare(event("evt_1")))
			require.NoError(w, err)
			require.Equal(w, []Status{StatusDuplicate}, statuses(receipts))
		},
		"leaves no positions of a duplicate": func(w *world) {
			w.mustPush(event("evt_1"))
			again := event("evt_1")
			again.WAL = dedup.WAL{"main": 9}
			require.Equal(w, StatusDuplicate, w.mustPush(again).Status)
			holder, _ := w.keyLock("evt_1")
			require.Empty(w, holder.Left)
		},
		"of a periodic job is an error": func(w *world) {
			_, err := Periodic{Name: "n", Cron: "@daily", Job: event("evt_1")}.Definition()
			require.ErrorContains(w, err, "Key: it would be the key of every tick")
			_, err = Periodic{Name: "n", Cron: "@daily", Job: RawJob{Class: "A", Unique: &dedup.Rule{Until: dedup.UntilExpired}}}.Definition()
			require.ErrorContains(w, err, "UntilExpired: its schedule says")
		},
	})
}

func TestUntilExpired(t *testing.T) {
	promises(t, Config{}, map[string]func(w *world){
		"accepts one job in each period, and the first": func(w *world) {
			report := func(until dedup.Until, args ...any) RawJob {
				return RawJob{Class: "Report", Args: args, Unique: &dedup.Rule{Until: until, TTL: time.Hour}}
			}
			first := w.mustPush(report(dedup.UntilExpired, 1))
			require.Equal(w, StatusQueued, first.Status)
			require.NotContains(w, w.queue(DefaultQueue)[0], dedup.FieldName)
			w.do("DEL", w.keys.Queue(DefaultQueue))
			later := report(dedup.UntilExpired, 1)
			later.In = time.Hour
			for _, j := range []RawJob{report(dedup.UntilExpired, 1), later, report(dedup.UntilExecuted, 1)} {
				require.Equal(w, first.JID, w.mustPush(j).Holder)
			}
			require.Equal(w, StatusQueued, w.mustPush(report(dedup.UntilExpired, 2)).Status)

			marked := report(dedup.UntilExpired, 1)
			marked.Unique.MarkDuplicates = true
			receipt := w.mustPush(marked)
			require.Equal(w, StatusQueued, receipt.Status)
			require.Equal(w, first.JID, receipt.Holder)
			require.Len(w, w.queue(DefaultQueue), 2)
		},
		"of a prepared job begins when it is pushed": func(w *world) {
			rule := &dedup.Rule{Until: dedup.UntilExpired, TTL: time.Hour}
			receipts, err := w.pushPrepared(1, "m", w.prepare(RawJob{Class: "A", Unique: rule}), w.prepare(RawJob{Class: "A", Unique: rule}))
			require.NoError(w, err)
			require.Equal(w, []Status{StatusQueued, StatusDuplicate}, statuses(receipts))
			require.NotContains(w, w.queue(DefaultQueue)[0], dedup.FieldName)
		},
	})
}
