package lua

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// killed moves an entry that lies first in a list of a new process to the dead set, and answers the dead one.
func (w *world) killed(entry string, lock *Lock) string {
	w.Helper()
	identity := w.hold(entry)
	large := NewTooLarge(LargeOf(entry), w.keys.Working("q", identity), "q", 5, time.Unix(1_700_000_000, 0), job.Seconds)
	large.Lock, large.Today = lock, w.today
	require.True(w, ask(w, w.keys.KillLarge(large)))
	require.Empty(w, w.list(w.keys.Working("q", identity)))
	dead := w.sorted(w.keys.Dead())
	return dead[len(dead)-1]
}

func TestKillLarge(t *testing.T) {
	const reason = `"error_class":"Belay::TooLarge","error_message":"too large: %d bytes, limit 5","failed_at":1700000000.0`
	reasonFor := func(entry string) string { return strings.Replace(reason, "%d", strconv.Itoa(len(entry)), 1) }
	keep(t,
		promise{"an_object_gets_its_reason_and_keeps_its_text", func(w *world) {
			entry := " {\"class\":\"C\", \"args\":[\"\xff é\"]}\n"
			want := " {" + reasonFor(entry) + `,` + entry[2:]
			require.Equal(w, want, w.killed(entry, nil))
			require.InDelta(w, w.now(), w.score(w.keys.Dead(), want), 60)
		}},
		promise{"the_reason_counts_and_not_an_earlier_error", func(w *world) {
			entry := `{"error_class":"Old","class":"C","jid":"j","args":[],"error_message":"old","failed_at":5.0}`
			parsed, err := job.Parse(w.killed(entry, nil))
			require.NoError(w, err)
			class, _ := parsed.Text("error_class")
			message, _ := parsed.Text("error_message")
			require.Equal(w, "Belay::TooLarge", class)
			require.Contains(w, message, "too large: ")
		}},
		promise{"text_that_is_no_object_becomes_a_string_of_a_valid_job", func(w *world) {
			for _, entry := range []string{`[1,"two"]`, "null        ", `{ }      `, "{nothing", "\"quo\\\"ted\"", "a\tb\nc"} {
				parsed, err := job.Parse(w.killed(entry, nil))
				require.NoError(w, err)
				kept, ok := parsed.Kept()
				require.True(w, ok)
				require.Equal(w, entry, kept)
				require.Equal(w, "q", parsed.Queue())
				message, _ := parsed.Text("error_message")
				require.Contains(w, message, "too large: ")
			}
		}},
		promise{"counts_a_failed_run", func(w *world) {
			w.killed("123456", nil)
			for _, key := range []string{w.keys.Processed(), w.keys.Failed(), w.keys.ProcessedOn(w.today), w.keys.FailedOn(w.today)} {
				require.Equal(w, 1, w.counter(key), key)
			}
			require.Positive(w, w.number("TTL", w.keys.FailedOn(w.today)))
		}},
		promise{"leaves_the_state_of_a_tracked_job_with_and_without_a_lock", func(w *world) {
			w.unique("a")
			w.redis("DEL", w.keys.Queue("q"))
			for jid, lock := range map[string]*Lock{"a": lockOf("a"), "b": nil} {
				w.redis("HSET", w.keys.Iteration(jid), FieldState, string(TrackRunning), FieldCursor, "5", fieldVersion, "3", fieldCreated, "1.0")
				w.killed(tracked(w.TB, jid).Raw(), lock)
				large := tracked(w.TB, jid).Raw()
				require.Equal(w, TrackedJob{Tracked: Tracked{
					JID: jid, State: TrackDead, ErrorClass: job.TooLargeClass, ErrorMessage: job.TooLargeMessage(len(large), 5),
				}}, w.stateOf(jid))
				require.Equal(w, "5", w.hash(w.keys.Iteration(jid))[FieldCursor], "an operator may revive it")
				require.Equal(w, "4", w.hash(w.keys.Iteration(jid))[fieldVersion])
			}
			require.Nil(w, w.redis("GET", w.keys.Lock(lockOf("a").Digest)))
		}},
		promise{"frees_its_own_lock", func(w *world) {
			w.unique("a")
			w.redis("DEL", w.keys.Queue("q"))
			require.NotEmpty(w, w.redis("GET", w.keys.Lock(lockOf("a").Digest)))
			w.killed("123456", lockOf("a"))
			require.Nil(w, w.redis("GET", w.keys.Lock(lockOf("a").Digest)))
			require.Empty(w, w.sorted(w.keys.Unique()))
		}},
		promise{"frees_no_lock_of_another", func(w *world) {
			w.unique("a")
			w.redis("DEL", w.keys.Queue("q"))
			otherLock := *lockOf("a")
			otherLock.Owner = OwnerOf("other", "C")
			w.killed("123456", &otherLock)
			require.NotNil(w, w.redis("GET", w.keys.Lock(lockOf("a").Digest)))
		}},
		promise{"twins_stay_two", func(w *world) {
			identity := w.hold("123456", "123456")
			large := NewTooLarge(LargeOf("123456"), w.keys.Working("q", identity), "q", 5, time.Unix(1_700_000_000, 0), job.Seconds)
			require.True(w, ask(w, w.keys.KillLarge(large)))
			require.True(w, ask(w, w.keys.KillLarge(large)))
			require.False(w, ask(w, w.keys.KillLarge(large)))
			require.Len(w, w.sorted(w.keys.Dead()), 2)
		}},
		promise{"is_found_where_others_have_come_before_it", func(w *world) {
			identity := w.hold("123456")
			large := NewTooLarge(LargeOf("123456"), w.keys.Working("q", identity), "q", 5, time.Unix(1_700_000_000, 0), job.Seconds)
			w.holdMore(identity, "q", "a", "123457", "b")
			require.True(w, ask(w, w.keys.KillLarge(large)))
			require.Equal(w, []string{"b", "123457", "a"}, w.list(w.keys.Working("q", identity)))
		}},
		promise{"is_not_searched_behind_too_many_bytes_of_others", func(w *world) {
			entry := strings.Repeat("x", 2<<20)
			identity := w.hold(entry)
			large := NewTooLarge(LargeOf(entry), w.keys.Working("q", identity), "q", 5, time.Unix(1_700_000_000, 0), job.Seconds)
			large.Today = w.today
			others := make([]string, 4)
			for n := range others {
				others[n] = strconv.Itoa(n) + entry
				w.holdMore(identity, "q", others[n])
			}
			w.unchanged(func() { require.False(w, ask(w, w.keys.KillLarge(large))) })
			large.At = len(others) // where the next look meets it
			require.True(w, ask(w, w.keys.KillLarge(large)))
			require.Len(w, w.list(w.keys.Working("q", identity)), len(others))
		}},
		promise{"out_of_a_sorted_set", func(w *world) {
			w.dueAt(w.keys.Retry(), time.Hour, "a", "123456", "b")
			large := NewTooLarge(LargeOf("123456"), w.keys.Retry(), "", 5, time.Unix(1_700_000_000, 0), job.Seconds)
			large.Sorted, large.At = true, 1
			require.True(w, ask(w, w.keys.KillLarge(large)))
			require.Equal(w, []string{"a", "b"}, w.sorted(w.keys.Retry()))
			require.Len(w, w.sorted(w.keys.Dead()), 1)
		}},
		promise{"what_has_left_is_written_nowhere", func(w *world) {
			identity := w.hold("a")
			w.unchanged(func() {
				require.False(w, ask(w, w.keys.KillLarge(NewTooLarge(LargeOf("123456"), w.keys.Working("q", identity), "q", 5, time.Now(), job.Seconds))))
			})
		}},
	)
}
