package lua

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServe(t *testing.T) {
	served := func(w *world, identity string, revision int64, queues, left []string) Served {
		return ask(w, w.keys.Serve(identity, queues, left, revision))
	}
	named := func(w *world, identity string) []string { return ask(w, w.keys.ReadRecord(identity)).Queues }
	keep(t,
		promise{"a_record_names_the_queues_that_come_and_go", func(w *world) {
			identity := w.process("a")
			require.Equal(w, ServeServed, served(w, identity, 1, []string{"a", "ü\"\n"}, nil))
			require.Equal(w, []string{"a", "ü\"\n"}, named(w, identity))
			require.Equal(w, ServeServed, served(w, identity, 2, nil, []string{"a", "ü\"\n"}))
			require.Equal(w, []string{}, named(w, identity))
			require.Equal(w, StateAlive, ask(w, w.keys.Heartbeat(identity, someTTL)).State)
		}},
		promise{"a_queue_whose_list_has_a_job_stays_named", func(w *world) {
			identity := w.hold("job")
			w.unchanged(func() { require.Equal(w, ServeBusy, served(w, identity, 1, []string{"other"}, []string{"x", "q"})) })
			require.Equal(w, ServeServed, served(w, identity, 1, []string{"q", "other"}, []string{"x"}))
		}},
		promise{"no_queue_goes_beside_a_quarantined_job", func(w *world) {
			identity := w.process("q")
			w.redis("LPUSH", w.keys.QuarantineRun(identity), "job")
			w.unchanged(func() { require.Equal(w, ServeBusy, served(w, identity, 1, []string{"other"}, []string{"q"})) })
			require.Equal(w, ServeServed, served(w, identity, 1, []string{"q", "other"}, nil))
		}},
		promise{"a_call_that_arrives_late_changes_nothing", func(w *world) {
			identity := w.process("a")
			require.Equal(w, ServeServed, served(w, identity, 3, []string{"a", "b"}, nil))
			w.unchanged(func() { require.Equal(w, ServeStale, served(w, identity, 2, []string{"a"}, []string{"b"})) })
			w.unchanged(func() { require.Equal(w, ServeServed, served(w, identity, 3, []string{"a", "b"}, nil)) })
		}},
		promise{"nothing_is_written_for_a_session_that_has_ended_or_lost_its_record", func(w *world) {
			identity := w.process("a")
			w.lapse(identity)
			require.Equal(w, StateDead, ask(w, w.keys.Recover(identity, []string{"a"}, nil, w.today)).State)
			w.unchanged(func() { require.Equal(w, ServeGone, served(w, identity, 1, []string{"a", "b"}, nil)) })
			lost := w.process("a")
			w.redis("DEL", w.keys.Record(lost))
			w.unchanged(func() { require.Equal(w, ServeGone, served(w, lost, 1, []string{"a", "b"}, nil)) })
		}},
	)
}
