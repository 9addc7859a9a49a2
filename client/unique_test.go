package client

import (
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

func unique(args ...any) RawJob {
	return RawJob{Class: "Report", Args: args, Unique: &dedup.Rule{Until: dedup.UntilExecuted, TTL: time.Minute}}
}

// TestRefusalsAreReported holds what the log says of duplicates.
func TestRefusalsAreReported(t *testing.T) {
	var text drivertest.Buffer
	promises(t, Config{Logger: slog.New(logbook.JSON(&text, slog.LevelInfo))}, map[string]func(w *world){
		"once a second for a class, with the number of those left out": func(w *world) {
			report := unique(42)
			class := "Report " + w.keys.Queue("q")
			report.Class = class
			var receipts []Receipt
			for range 4 {
				receipt, err := w.client.Push(w.Context(), report)
				require.NoError(w, err)
				receipts = append(receipts, receipt)
			}
			report.PushOnce = true
			w.client.spaces[0].refusals.mu.Lock()
			last := w.client.spaces[0].refusals.classes[class]
			w.client.spaces[0].refusals.classes[class] = classLog{last.at.Add(-refusalsEvery), last.omitted}
			w.client.spaces[0].refusals.mu.Unlock()
			receipt, err := w.client.Push(w.Context(), report)
			require.NoError(w, err)
			again, err := w.client.Repeat(w.Context(), receipt)
			require.NoError(w, err)
			require.Equal(w, receipt.Holder, again.Holder)

			lines := func() (found []map[string]any) { // the log is buffered
				for line := range strings.Lines(text.String()) {
					var fields map[string]any
					require.NoError(w, json.Unmarshal([]byte(line), &fields))
					delete(fields, "time")
					if fields["class"] == class {
						found = append(found, fields)
					}
				}
				return found
			}
			drivertest.Eventually(w, func() bool { return len(lines()) >= 2 }, 10*time.Second, time.Millisecond)
			require.Len(w, lines(), 2)
			for i, want := range []struct {
				jid  string
				left float64
			}{{receipts[1].JID, 0}, {receipt.JID, 2}} {
				digest := lines()[i]["digest"]
				require.Regexp(w, "^[0-9a-f]{32}$", digest)
				require.Equal(w, map[string]any{
					"level": "info", "message": "push refused: duplicate", "jid": want.jid, "class": class, "queue": "default",
					"holder": receipts[0].JID, "digest": digest, "left_out": want.left,
				}, lines()[i])
			}
		},
	})
}

func TestRefusalsRememberFewClasses(t *testing.T) {
	t.Parallel()
	r, now := newRefusals(slog.New(slog.DiscardHandler)), time.Now()
	for n := range maxClasses {
		_, due := r.due(now, strconv.Itoa(n))
		require.True(t, due)
	}
	_, due := r.due(now, "one more")
	require.False(t, due)
	_, due = r.due(now.Add(refusalsEvery), "one more")
	require.True(t, due)
	require.Len(t, r.classes, 1)
}

func TestUnique(t *testing.T) {
	promises(t, Config{}, map[string]func(w *world){
		"a duplicate names the holder of its lock and leaves nothing": func(w *world) {
			first, err := w.client.Push(w.Context(), unique(42))
			require.NoError(w, err)
			require.Equal(w, StatusQueued, first.Status)
			second, err := w.client.Push(w.Context(), unique(42))
			require.NoError(w, err)
			require.Equal(w, StatusDuplicate, second.Status)
			require.Equal(w, first.JID, second.Holder)
			require.NotEqual(w, first.JID, second.JID)
			require.Len(w, w.queue("default"), 1)
			third, err := w.client.Push(w.Context(), unique(43))
			require.NoError(w, err)
			require.Equal(w, StatusQueued, third.Status)
		},
		"a marked duplicate is stored, and names the job that it duplicates": func(w *world) {
			first, err := w.client.Push(w.Context(), unique(42))
			require.NoError(w, err)
			duplicate := unique(42)
			duplicate.Unique.MarkDuplicates = true
			second, err := w.client.Push(w.Context(), duplicate)
			require.NoError(w, err)
			require.Equal(w, Receipt{JID: second.JID, Queue: "default", Status: StatusQueued, Holder: first.JID}, second)
			marked := w.queue("default")[1]
			parsed, err := job.Parse(marked)
			require.NoError(w, err)
			text, _ := parsed.Field("duplicate-of")
			require.Equal(w, strconv.Quote(first.JID), text)
			require.Equal(w, "[42]", parsed.ArgsJSON())

			duplicate.PushOnce, duplicate.In = true, time.Hour
			duplicate.Unique = &dedup.Rule{Until: dedup.UntilExecuted, IncludingScheduled: true, MarkDuplicates: true}
			w.proxy.Add(faultproxy.DropReply("Report"))
			receipts, err := w.client.PushMany(w.Context(), seqOf(duplicate, unique(42)))
			require.NoError(w, err)
			require.Equal(w, []Status{StatusScheduled, StatusDuplicate}, statuses(receipts))
			require.Equal(w, first.JID, receipts[0].Holder)
			require.Equal(w, int64(1), w.do("ZCARD", w.keys.Schedule()), "once")
		},
		"a marked duplicate is short enough for its mark": func(w *world) {
			long := unique(strings.Repeat("x", w.client.cfg.PayloadLimit-400))
			_, err := w.client.Push(w.Context(), long)
			require.NoError(w, err)
			long.Unique.MarkDuplicates = true
			_, err = w.client.Push(w.Context(), long)
			require.ErrorContains(w, err, "are allowed")
		},
		"a duplicate leaves its positions with the lock": func(w *world) {
			report := unique(42)
			report.WAL = dedup.WAL{"main": 9 << 32}
			first, err := w.client.Push(w.Context(), report)
			require.NoError(w, err)
			stored, err := job.Parse(w.queue("default")[0])
			require.NoError(w, err)
			text, _ := stored.Field("wal_locations")
			require.Equal(w, `{"main":"9/0"}`, text)
			left := func() string {
				lock, err := dedup.Read(stored)
				require.NoError(w, err)
				value, _ := w.do("GET", w.keys.Lock(lock.Digest)).(string)
				holder, ok := lua.HolderOf(value)
				require.True(w, ok)
				return holder.Left
			}
			require.Empty(w, left())
			report.WAL = dedup.WAL{"main": 16 << 32, "ci": 1}
			second, err := w.client.Push(w.Context(), report)
			require.NoError(w, err)
			require.Equal(w, first.JID, second.Holder)
			require.Equal(w, "ci 0/1\nmain 10/0", left())

			report.WAL, report.PushOnce = nil, true
			report.Extra = []job.Edit{{Name: "wal_locations", JSON: `{"main": "A/0", "ci": "0/2"}`}} // as a line of a file has it
			_, err = w.client.Push(w.Context(), report)
			require.NoError(w, err)
			require.Equal(w, "ci 0/2\nmain 10/0", left())
			report.Unique = nil
			_, err = w.client.Push(w.Context(), report)
			require.NoError(w, err)
			require.Contains(w, w.queue("default")[1], `"wal_locations":{"main":"A/0","ci":"0/2"}`)
		},
		"what is no position is not pushed": func(w *world) {
			for want, change := range map[string]func(j *RawJob){
				"the position of connection \"main\" is 0: leave it out": func(j *RawJob) { j.WAL = dedup.WAL{"main": 0} },
				"holds a space or a control character":                   func(j *RawJob) { j.WAL = dedup.WAL{"the main one": 1} },
				"must be an object with a position for each":             func(j *RawJob) { j.Extra = []job.Edit{{Name: "wal_locations", JSON: `["9/0"]`}} },
				"\"9\" is not a position":                                func(j *RawJob) { j.Extra = []job.Edit{{Name: "wal_locations", JSON: `{"main":"9"}`}} },
				"the field \"wal_locations\" is set twice": func(j *RawJob) {
					j.WAL = dedup.WAL{"main": 1}
					j.Extra = []job.Edit{{Name: "wal_locations", JSON: `{}`}}
				},
			} {
				report := unique(42)
				change(&report)
				_, err := w.client.Push(w.Context(), report)
				require.ErrorContains(w, err, want)
			}
		},
		"no other receipt says that a push is a duplicate": func(w *world) {
			report := unique(42)
			report.Extra = []job.Edit{{Name: "duplicate-of", JSON: `"x"`}}
			_, err := w.client.Push(w.Context(), report)
			require.ErrorContains(w, err, "cannot be set like this")
			report.Unique = nil
			_, err = w.client.Push(w.Context(), report)
			require.NoError(w, err, "a job of GitLab's, say")
		},
		"in a bulk with others each has its own receipt": func(w *world) {
			plain := RawJob{Class: "Plain", Queue: "other"}
			receipts, err := w.client.PushMany(w.Context(), seqOf(plain, unique(1), unique(1), plain, unique(2)))
			require.NoError(w, err)
			require.Equal(w, []Status{StatusQueued, StatusQueued, StatusDuplicate, StatusQueued, StatusQueued}, statuses(receipts))
			require.Equal(w, receipts[1].JID, receipts[2].Holder)
			require.Len(w, w.queue("default"), 2)
			require.Len(w, w.queue("other"), 2)
		},
		"one for later neither asks nor locks unless its rule says so": func(w *world) {
			held, err := w.client.Push(w.Context(), unique(1))
			require.NoError(w, err)
			later := unique(1)
			later.In = time.Hour
			receipt, err := w.client.Push(w.Context(), later)
			require.NoError(w, err)
			require.Equal(w, StatusScheduled, receipt.Status)
			later.Unique = &dedup.Rule{Until: dedup.UntilExecuted, IncludingScheduled: true}
			receipt, err = w.client.Push(w.Context(), later)
			require.NoError(w, err)
			require.Equal(w, StatusDuplicate, receipt.Status)
			require.Equal(w, held.JID, receipt.Holder)
		},
		"the same jid again is queued, and once": func(w *world) {
			mine := unique(1)
			mine.JID = "mine"
			for range 3 {
				receipt, err := w.client.Push(w.Context(), mine)
				require.NoError(w, err)
				require.Equal(w, StatusQueued, receipt.Status)
			}
			require.Len(w, w.queue("default"), 1)
		},
		"an answer that was lost is asked for again": func(w *world) {
			first, err := w.client.Push(w.Context(), unique(1))
			require.NoError(w, err)
			jobs := []RawJob{unique(1), unique(2)}
			for i := range jobs {
				jobs[i].PushOnce = true
			}
			w.proxy.Add(faultproxy.DropReply("Report"))
			receipts, err := w.client.PushMany(w.Context(), seqOf(jobs...))
			require.NoError(w, err)
			require.Equal(w, []Status{StatusDuplicate, StatusQueued}, statuses(receipts))
			require.Equal(w, first.JID, receipts[0].Holder)
			require.Len(w, w.queue("default"), 2)
		},
		"a rule that cannot be is an error of the push": func(w *world) {
			report := unique(1)
			report.Unique = &dedup.Rule{Until: "for ever", TTL: -1}
			_, err := w.client.Push(w.Context(), report)
			var invalid *InvalidError
			require.ErrorAs(w, err, &invalid)
			require.ErrorContains(w, err, "for ever")
			require.ErrorContains(w, err, "TTL")
		},
	})
}
