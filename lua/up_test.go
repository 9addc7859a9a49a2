package lua

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUp(t *testing.T) {
	keep(t,
		promise{"begins_with_the_first_process_and_lasts_as_long_as_one_is_alive", func(w *world) {
			w.within(w.now(), float64(ask(w, w.keys.UpSince()).UnixMilli())/1000+0.001, w.now()+0.1)
			first := w.process("q")
			w.redis("SET", w.keys.Up(), "1000")
			second := w.process("q")
			w.lapse(first)
			ask(w, w.keys.Heartbeat(second, someTTL))
			w.process("q")
			require.Equal(w, time.UnixMilli(1000), ask(w, w.keys.UpSince()))
		}},
		promise{"begins_anew_after_a_gap", func(w *world) {
			identity := w.process("q")
			w.redis("SET", w.keys.Up(), "1000")
			w.lapse(identity)
			w.within(w.now(), float64(ask(w, w.keys.UpSince()).UnixMilli())/1000+0.001, w.now()+0.1)
			before := w.now()
			ask(w, w.keys.Heartbeat(identity, someTTL))
			w.within(before, float64(ask(w, w.keys.UpSince()).UnixMilli())/1000+0.001, w.now())
			w.redis("SET", w.keys.Up(), "1000")
			ask(w, w.keys.Deregister(identity, []string{"q"}))
			before = w.now()
			w.process("q")
			w.within(before, float64(ask(w, w.keys.UpSince()).UnixMilli())/1000+0.001, w.now())
		}},
		promise{"is_long_ago_if_it_lies_ahead", func(w *world) {
			w.process("q")
			w.redis("SET", w.keys.Up(), strconv.FormatInt(w.clock().Add(time.Hour).UnixMilli(), 10))
			require.Equal(w, time.UnixMilli(0), ask(w, w.keys.UpSince()))
		}},
	)
}
