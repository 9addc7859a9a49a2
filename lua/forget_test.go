package lua

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestForget(t *testing.T) {
	queues := []string{"q", "r"}
	keep(t,
		promise{"drops_the_tombstone_and_the_record", func(w *world) {
			identity := w.process(queues...)
			ask(w, w.keys.Deregister(identity, queues))
			require.True(w, ask(w, w.keys.Forget(identity, queues, 0)))
			w.redis("DEL", w.keys.Up()) // which is of the fleet
			require.Empty(w, w.everything())
			require.False(w, ask(w, w.keys.Forget(identity, queues, 0)))
		}},
		promise{"keeps_a_tombstone_that_is_too_young", func(w *world) {
			identity := w.process(queues...)
			ask(w, w.keys.Deregister(identity, queues))
			w.unchanged(func() { require.False(w, ask(w, w.keys.Forget(identity, queues, time.Hour))) })
		}},
		promise{"keeps_a_tombstone_while_any_of_its_lists_holds_something", func(w *world) {
			identity := w.process(queues...)
			w.holdMore(identity, "r", "a")
			ask(w, w.keys.Deregister(identity, queues))
			w.unchanged(func() { require.False(w, ask(w, w.keys.Forget(identity, queues, 0))) })
		}},
		promise{"never_forgets_one_that_has_no_tombstone", func(w *world) {
			identity := w.process(queues...)
			w.lapse(identity)
			w.unchanged(func() { require.False(w, ask(w, w.keys.Forget(identity, queues, 0))) })
		}},
	)
}
