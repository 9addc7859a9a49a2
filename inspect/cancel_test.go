package inspect

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// cancel cancels jobs and returns the results by jid.
func (w *world) cancel(jids ...string) map[string]Cancellation {
	w.Helper()
	ctx, end := context.WithTimeout(w.Context(), time.Minute) // without a deadline a search ends after ten seconds
	defer end()
	results, err := w.inspector.Cancel(ctx, jids...)
	require.NoError(w, err)
	require.Len(w, results, len(jids))
	by := make(map[string]Cancellation)
	for n, r := range results {
		require.Equal(w, jids[n], r.JID)
		require.Empty(w, r.Unseen)
		by[r.JID] = r
	}
	return by
}

func (w *world) process(identity string, queues ...string) {
	w.Helper()
	_, err := w.keys.Register(identity, lua.Record{Queues: queues, Beat: time.Second, TTL: time.Minute}).Do(w.Context(), w.driver)
	require.NoError(w, err)
}

func TestCancel(t *testing.T) {
	promises(t, map[string]func(w *world){
		"says what it did about each job, wherever it was": func(w *world) {
			soon := strconv.FormatInt(time.Now().Unix()+60, 10)
			w.do("SADD", w.keys.Queues(), "mail")
			for n := range 600 {
				w.do("LPUSH", w.keys.Queue("mail"), sought(fmt.Sprintf("w%d", n), ""))
			}
			w.do("LPUSH", w.keys.Quarantine("mail"), sought("alone", ""))
			w.do("ZADD", w.keys.Schedule(), soon, sought("later", ""))
			w.do("ZADD", w.keys.Retry(), soon, sought("failed", ""))
			w.do("ZADD", w.keys.Dead(), soon, sought("dead", ""))
			w.process("h:1:aa", "mail")
			w.process("old:1:bb", "mail")
			w.do("HDEL", w.keys.Record("old:1:bb"), "protocol")
			w.do("LPUSH", w.keys.Working("mail", "h:1:aa"), sought("runs", ""))
			w.do("LPUSH", w.keys.QuarantineRun("h:1:aa"), sought("runs alone", ""))
			w.do("LPUSH", w.keys.Working("mail", "old:1:bb"), sought("runs in old", ""))
			w.do("SADD", w.keys.Processes(), "ruby:1:cc")
			w.do("HSET", w.keys.Process("ruby:1:cc"), "info", `{"hostname":"ruby"}`, "busy", "1")
			w.do("HSET", w.keys.Work("ruby:1:cc"), "t1", fmt.Sprintf(`{"queue":"mail","run_at":1,"payload":%q}`, sought("runs in ruby", "")))

			results := w.cancel("w0", "w300", "w599", "alone", "later", "failed", "dead", "runs", "runs alone", "runs in old", "runs in ruby", "nowhere", "w0")
			for jid, want := range map[string]Cancellation{
				"w0": {Result: CancelRemoved, Place: PlaceQueue}, "w300": {Result: CancelRemoved, Place: PlaceQueue},
				"w599": {Result: CancelRemoved, Place: PlaceQueue}, "alone": {Result: CancelRemoved, Place: PlaceQuarantined},
				"later": {Result: CancelRemoved, Place: PlaceScheduled}, "failed": {Result: CancelRemoved, Place: PlaceRetry},
				"dead": {Result: CancelDone, Place: PlaceDead},
				"runs": {Result: CancelStopping, Place: PlaceRunning, Process: "h:1:aa"}, "runs alone": {Result: CancelStopping, Place: PlaceRunning, Process: "h:1:aa"},
				"runs in old":  {Result: CancelMarked, Place: PlaceRunning, Process: "old:1:bb"},
				"runs in ruby": {Result: CancelMarked, Place: PlaceRunning, Process: "ruby:1:cc"},
			} {
				want.JID, want.Class, want.Queue = jid, "A", "mail"
				require.Equal(w, want, results[jid])
			}
			require.Equal(w, Cancellation{JID: "nowhere", Result: CancelMarked, Place: PlaceNotFound}, results["nowhere"])
			require.Equal(w, int64(597), w.do("LLEN", w.keys.Queue("mail")))
			for _, key := range []string{w.keys.Quarantine("mail"), w.keys.Schedule(), w.keys.Retry()} {
				require.Equal(w, int64(0), w.do("EXISTS", key))
			}
			require.Equal(w, int64(1), w.do("ZCARD", w.keys.Dead()))
			for _, key := range []string{w.keys.Working("mail", "h:1:aa"), w.keys.QuarantineRun("h:1:aa"), w.keys.Working("mail", "old:1:bb")} {
				require.Equal(w, int64(1), w.do("LLEN", key), "an operator takes no job from a process")
			}
			require.ElementsMatch(w, []any{"", "\n", "runs", "runs alone", "runs in old", "runs in ruby", "nowhere"}, w.do("ZRANGE", w.keys.Cancelled(), "0", "-1"),
				"marks of jobs that may still come")
			stopped, _ := w.do("HGETALL", w.keys.Iteration("runs in ruby")).([]any)
			require.Len(w, stopped, 8)
			require.Equal(w, "cancelled", stopped[0])
		},
		"frees the lock of a unique job": func(w *world) {
			rule := dedup.Rule{Until: dedup.UntilExecuted}
			draft := job.Draft{Class: "A", Queue: "mail", JID: "unique"}
			lock, err := rule.Lock(draft)
			require.NoError(w, err)
			draft.Extra = []job.Edit{lock.Edit()}
			stored := lock.Stored("A")
			w.do("SADD", w.keys.Queues(), "mail")
			w.do("LPUSH", w.keys.Queue("mail"), draft.Encode())
			w.do("SET", w.keys.Lock(stored.Digest), " "+stored.Owner+"\nA")
			require.Equal(w, CancelRemoved, w.cancel("unique")["unique"].Result)
			require.Equal(w, int64(0), w.do("EXISTS", w.keys.Lock(stored.Digest)))
		},
		"marks a running job whose clock is ahead by itself": func(w *world) {
			w.process("h:1:aa", "mail")
			ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
			w.do("LPUSH", w.keys.Working("mail", "h:1:aa"), sought("runs", `,"created_at":`+ahead))
			require.Equal(w, CancelStopping, w.cancel("runs")["runs"].Result)
			require.ElementsMatch(w, []any{"", "runs", "runs\n" + ahead}, w.do("ZRANGE", w.keys.Cancelled(), "0", "-1"))
		},
		"finds a job that moves against the order of the search": func(w *world) {
			w.do("SADD", w.keys.Queues(), "mail")
			w.do("LPUSH", w.keys.Queue("mail"), sought("other", ""))
			w.do("ZADD", w.keys.Retry(), "1", sought("moves", ""))
			moved := false
			w.inspector = w.inspectorOf(&betweenCalls{Client: w.driver, after: func(call driver.Call) {
				if !moved && len(call.Keys) > 0 && call.Keys[0] == w.keys.Queue("mail") {
					moved = true
					w.do("ZREM", w.keys.Retry(), sought("moves", ""))
					w.do("LPUSH", w.keys.Queue("mail"), sought("moves", ""))
				}
			}})
			require.Equal(w, CancelRemoved, w.cancel("moves")["moves"].Result)
			require.True(w, moved)
		},
		"says when it has not looked everywhere": func(w *world) {
			w.do("SADD", w.keys.Queues(), "mail")
			w.do("LPUSH", w.keys.Queue("mail"), sought("waits", ""))
			late, stop := context.WithTimeout(w.Context(), time.Minute)
			defer stop()
			i := *w.inspector
			c := &cancelling{i: &i, ends: time.Now(), results: map[string]*Cancellation{"waits": {Result: CancelMarked}}, open: map[string]bool{"waits": true}}
			require.NoError(w, c.run(late))
			require.Equal(w, CancelMarked, c.results["waits"].Result)
			require.Contains(w, c.results["waits"].Unseen, "it took too long")
			require.NotNil(w, w.do("ZSCORE", w.keys.Cancelled(), "waits"), "a worker that takes it drops it")
		},
		"goes on after a queue that is not a list, and says so": func(w *world) {
			w.do("SADD", w.keys.Queues(), "odd", "mail")
			w.do("SET", w.keys.Queue("odd"), "x")
			w.do("LPUSH", w.keys.Queue("mail"), sought("waits", ""))
			w.do("ZADD", w.keys.Retry(), "1", sought("failed", ""))
			results, err := w.inspector.Cancel(w.Context(), "waits", "failed", "nowhere")
			require.NoError(w, err)
			require.Equal(w, []CancelResult{CancelRemoved, CancelRemoved, CancelMarked}, []CancelResult{results[0].Result, results[1].Result, results[2].Result})
			require.Equal(w, "queue odd is not a list", results[2].Unseen)
		},
		"of more jobs than can be marked is refused, and breaks no earlier answer": func(w *world) {
			w.process("h:1:aa", "mail")
			w.do("LPUSH", w.keys.Working("mail", "h:1:aa"), sought("runs", ""))
			require.Equal(w, CancelStopping, w.cancel("runs")["runs"].Result)
			young := strconv.FormatInt(time.Now().UnixMicro(), 10)
			page := []string{"ZADD", w.keys.Cancelled()}
			for n := range lua.MaxMarks - 1 - lua.MaxItems {
				page = append(page, young, fmt.Sprintf("other%d", n))
			}
			w.do(page...)
			var jids []string
			for n := range 2 * lua.MaxItems {
				jids = append(jids, fmt.Sprintf("nowhere%d", n))
			}
			results, err := w.inspector.Cancel(w.Context(), jids...)
			require.ErrorContains(w, err, "10000 jobs are marked as cancelled")
			require.Len(w, results, len(jids))
			require.Equal(w, CancelMarked, results[lua.MaxItems-1].Result)
			require.Empty(w, results[lua.MaxItems].Result, "nothing was done about it")
			require.NotNil(w, w.do("ZSCORE", w.keys.Cancelled(), "runs"))
		},
		"refuses what is no jid, before it marks anything": func(w *world) {
			_, err := w.inspector.Cancel(w.Context(), "good", "", "two\nlines")
			require.ErrorContains(w, err, `"two\nlines" is not a jid`)
			require.Equal(w, int64(0), w.do("EXISTS", w.keys.Cancelled()))
		},
	})
}
