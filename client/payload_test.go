package client

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

var times = regexp.MustCompile(`"(created|enqueued)_at":[0-9.]+`)

// untimed returns a payload without its times.
func untimed(payload string) string { return times.ReplaceAllString(payload, "") }

func TestAWriterOfABulkKeepsEachTextAsItWas(t *testing.T) {
	t.Parallel()
	for _, bulk := range []bool{false, true} {
		w := writer{bulk: bulk}
		var texts, kept []string
		for n := range 3000 {
			text := strings.Repeat(string(rune('a'+n%26)), n*7%40_000)
			w.scratch = append(w.scratch[:0], text...)
			texts, kept = append(texts, text), append(kept, w.kept(w.scratch))
		}
		clear(w.scratch)
		require.Equal(t, texts, kept)
	}
}

func TestAWriterGivesEachJobAnIDOfItsOwn(t *testing.T) {
	t.Parallel()
	w, seen := writer{bulk: true}, make(map[string]bool)
	for range 1000 {
		jid := w.jid()
		require.Regexp(t, "^[0-9a-f]{24}$", jid)
		require.False(t, seen[jid])
		seen[jid] = true
	}
}

func TestJobsOfABulkShareATimeForAMillisecond(t *testing.T) {
	t.Parallel()
	client, err := New(accepting{}, Config{})
	require.NoError(t, err)
	w, here := writer{bulk: true}, time.Now()
	first := w.nowFor(t.Context(), client.spaces[0], time.Time{}, here)
	require.Equal(t, first, w.nowFor(t.Context(), client.spaces[0], time.Time{}, here.Add(stampEvery-1)))
	require.True(t, w.nowFor(t.Context(), client.spaces[0], time.Time{}, here.Add(stampEvery)).After(first))
	require.True(t, w.nowFor(t.Context(), client.spaces[0], here, here).After(first), "a job that may be due is compared with the present")
}

// A bulk push shares texts, ids and times among its jobs; the payloads must not show it.
func TestTheJobsOfABulkAreThoseOfSinglePushes(t *testing.T) {
	jobs := []RawJob{
		{Class: "A", Args: []any{1, "é\n", 1.5, nil, map[string]any{"b": []int{1}, "a": 1.0}}},
		{Class: "A", ArgsJSON: ` [ 1E5 , {"a":1,"a":2} ] `, Retry: job.RetryRule{Kind: job.RetryNever}, Tags: []string{"x"}, Meta: map[string]string{"tenant": "7"}},
		{Class: strings.Repeat("long", 30), Args: []any{strings.Repeat("x", 30_000)}, Backtrace: AllLines},
		{Class: "B", Then: []RawJob{{Class: "C", JID: "c", Args: []any{2}, Then: []RawJob{{Class: "D", JID: "d"}}}}},
		{Class: "A", Timeout: time.Second, Track: time.Hour, NoDead: true},
	}
	for i := range jobs {
		jobs[i].Queue, jobs[i].JID = "bulk", string(rune('a'+i))
	}
	promises(t, Config{}, map[string]func(w *world){
		"the same bytes but for the queue and the times": func(w *world) {
			_, err := w.client.PushMany(w.Context(), seqOf(jobs...))
			require.NoError(w, err)
			for _, j := range jobs {
				j.Queue = "alone"
				_, err := w.client.Push(w.Context(), j)
				require.NoError(w, err)
			}
			bulk, alone := w.queue("bulk"), w.queue("alone")
			require.Len(w, bulk, len(jobs))
			for i := range bulk {
				require.Equal(w, untimed(alone[i]), strings.ReplaceAll(untimed(bulk[i]), `"bulk"`, `"alone"`))
			}
		},
	})
}

// Bulk pushes are limited by what the client does for a job, and most of that was allocating.
func TestABulkAllocatesLittleForEachJob(t *testing.T) {
	const jobs = 10 * lua.MaxItems
	unique := &dedup.Rule{Until: dedup.UntilExecuting}
	for name, c := range map[string]struct {
		job  RawJob
		most float64
	}{
		"args":        {RawJob{Class: "A", Args: []any{42, "template", 1.5}}, 1},
		"JSON":        {RawJob{Class: "A", ArgsJSON: `[42,"template",1.5]`}, 1},
		"an object":   {RawJob{Class: "A", ArgsJSON: `[42,{"locale":"en"}]`}, 2},
		"a map":       {RawJob{Class: "A", Args: []any{42, map[string]any{"locale": "en", "tags": []string{"a", "b"}}}}, 2},
		"for later":   {RawJob{Class: "A", ArgsJSON: `[42]`, In: time.Minute}, 2},
		"with a key":  {RawJob{Class: "A", ArgsJSON: `[42]`, Key: "k"}, 5},
		"unique jobs": {RawJob{Class: "A", ArgsJSON: `[42]`, Unique: unique}, 8}, // four, unless sync.Pool forgets: with -race it does
	} {
		client, err := New(accepting{}, Config{})
		require.NoError(t, err)
		client.linger = time.Hour
		allocated := testing.AllocsPerRun(3, func() {
			_, err := client.PushMany(t.Context(), func(yield func(RawJob) bool) {
				for range jobs {
					yield(c.job)
				}
			})
			require.NoError(t, err)
		})
		require.LessOrEqual(t, allocated/jobs, c.most, name)
	}
}
