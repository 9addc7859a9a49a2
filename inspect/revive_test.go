package inspect

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A heldMarks is what a worker has read of the marks of cancelled jobs.
type heldMarks struct {
	w *world
	lua.Marks
}

// read does what a worker does after a heartbeat.
func (m *heldMarks) read() {
	m.w.Helper()
	newest, _ := m.w.do("ZSCORE", m.w.keys.Cancelled(), "").(string)
	if !m.Notice(newest) {
		return
	}
	for more := true; more; {
		var err error
		more, err = m.Read(m.w.Context(), m.w.driver, m.w.keys)
		require.NoError(m.w, err)
	}
}

// drops reports whether the worker would drop a job with these bytes.
func (m *heldMarks) drops(payload string) bool {
	m.w.Helper()
	parsed, err := job.Parse(payload)
	require.NoError(m.w, err)
	return m.Binds(parsed)
}

// after calls do once, after a call of this name.
func (w *world) after(name string, do func()) {
	done := false
	w.inspector = w.inspectorOf(&betweenCalls{Client: w.driver, after: func(call driver.Call) {
		if !done && call.Name() == name {
			done = true
			do()
		}
	}})
	w.Cleanup(func() { require.True(w, done, "there was no call of "+name) })
}

func TestARetryIsNewerThanACancellation(t *testing.T) {
	created := `"created_at":` + strconv.FormatInt(time.Now().Add(-time.Hour).UnixMilli(), 10)
	promises(t, map[string]func(w *world){
		"whose mark a worker has read before it was taken back": func(w *world) {
			marks := &heldMarks{w: w}
			w.fill(w.keys.Dead(), 1, sample("A", "1", created))
			w.after("mark", marks.read) // a heartbeat falls into the search
			require.Equal(w, CancelDone, w.cancel("1")["1"].Result)
			require.True(w, marks.drops(sample("A", "1", created)), "the worker has the mark")
			require.Equal(w, ActCounts{Moved: 1}, w.act(Dead(), Retry, Selection{IDs: []string{"1"}}))
			waiting := w.list(w.keys.Queue("q"))
			require.Len(w, waiting, 1)
			require.False(w, marks.drops(waiting[0]))
			marks.read()
			require.False(w, marks.drops(waiting[0]))
			require.False(w, marks.drops(sample("A", "1", created)), "a retry in Sidekiq's pages adds nothing to the job")
		},
		"whose mark stays": func(w *world) {
			marks := &heldMarks{w: w}
			require.Equal(w, CancelMarked, w.cancel("1")["1"].Result, "Ruby has the job")
			marks.read()
			for _, home := range []Home{Dead(), Retries(), Scheduled()} {
				w.fill(home.key(w.keys), 2e9, sample("A", "1", created))
				require.Equal(w, ActCounts{Moved: 1}, w.act(home, Retry, Selection{IDs: []string{"1"}}))
				waiting := w.list(w.keys.Queue("q"))
				require.Len(w, waiting, 1)
				require.False(w, marks.drops(waiting[0]), "%s", home)
				w.do("DEL", w.keys.Queue("q"))
			}
			require.True(w, marks.drops(sample("A", "1", created)), "a job that nobody has retried")
		},
		"that comes while the jobs are being moved": func(w *world) {
			marks := &heldMarks{w: w}
			w.fill(w.keys.Dead(), 1, sample("A", "1", created), sample("A", "2", created))
			w.after("TIME", func() { // the act has read the newest mark
				_, err := w.keys.Mark([]lua.Mark{{JID: "1"}}).Do(w.Context(), w.driver)
				require.NoError(w, err)
				marks.read()
			})
			require.Equal(w, ActCounts{Moved: 2}, w.act(Dead(), Retry, Selection{All: true}))
			require.Len(w, w.list(w.keys.Queue("q")), 2)
			for _, payload := range w.list(w.keys.Queue("q")) {
				require.False(w, marks.drops(payload), payload)
			}
		},
		"and a later cancellation is newer than the retry": func(w *world) {
			marks := &heldMarks{w: w}
			w.process("h:1:aa", "q")
			require.Equal(w, CancelMarked, w.cancel("1")["1"].Result)
			w.fill(w.keys.Dead(), 1, sample("A", "1", created))
			w.act(Dead(), Retry, Selection{IDs: []string{"1"}})
			w.do("LMOVE", w.keys.Queue("q"), w.keys.Working("q", "h:1:aa"), "RIGHT", "LEFT")
			require.Equal(w, CancelStopping, w.cancel("1")["1"].Result)
			marks.read()
			require.True(w, marks.drops(w.list(w.keys.Working("q", "h:1:aa"))[0]))
		},
		"even if the cancellation has marked first and finds the job afterwards": func(w *world) {
			marks := &heldMarks{w: w}
			w.process("h:1:aa", "q")
			w.fill(w.keys.Dead(), 1, sample("A", "1", created))
			w.after("mark", func() {
				require.Equal(w, ActCounts{Moved: 1}, (&world{T: w.T, inspector: w.inspectorOf(w.driver)}).act(Dead(), Retry, Selection{All: true}))
				w.do("LMOVE", w.keys.Queue("q"), w.keys.Working("q", "h:1:aa"), "RIGHT", "LEFT")
			})
			require.Equal(w, CancelStopping, w.cancel("1")["1"].Result)
			marks.read()
			require.True(w, marks.drops(w.list(w.keys.Working("q", "h:1:aa"))[0]), "the answer is true")
		},
	})
}

// A worker would drop the job, although the operator was told that it was retried.
func TestARetryEndsTheLimitsOfAJob(t *testing.T) {
	past := strconv.FormatInt(time.Now().Add(-time.Hour).Unix(), 10)
	promises(t, map[string]func(w *world){
		"its expiry, also Ruby's, and its deadline": func(w *world) {
			for name, fields := range map[string][]string{
				"expiry":   {`"expires_in":60`, `"expiry":` + past},
				"ruby":     {`"expires_in":60`, `"failed_at":` + past},
				"deadline": {`"belay_deadline_ms":` + past + "000"},
			} {
				w.fill(w.keys.Dead(), 1, sample("A", name, fields...))
			}
			require.Equal(w, ActCounts{Moved: 3}, w.act(Dead(), Retry, Selection{All: true}))
			waiting := w.list(w.keys.Queue("q"))
			require.Len(w, waiting, 3)
			for _, payload := range waiting {
				parsed, err := job.Parse(payload)
				require.NoError(w, err)
				_, limited := parsed.StartBy()
				require.False(w, limited, payload)
			}
		},
	})
}
