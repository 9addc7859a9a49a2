package lua

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLeastProtocol(t *testing.T) {
	least := func(w *world) (int, string) {
		protocol, identity, err := w.keys.MinProtocol(w.Context(), w.client)
		require.NoError(w, err)
		return protocol, identity
	}
	keep(t,
		promise{"names_none_without_any_process", func(w *world) {
			_, identity := least(w)
			require.Empty(w, identity)
		}},
		promise{"is_stored_with_every_registration", func(w *world) {
			require.Equal(w, strconv.Itoa(Protocol), w.redis("HGET", w.keys.Record(w.process("q")), "protocol"))
		}},
		promise{"is_that_of_the_oldest_worker", func(w *world) {
			newer, same := w.process("q"), w.process("q")
			w.redis("HSET", w.keys.Record(newer), "protocol", strconv.Itoa(Protocol+1))
			protocol, identity := least(w)
			require.Equal(w, Protocol, protocol)
			require.Equal(w, same, identity)
			w.redis("HSET", w.keys.Record(same), "protocol", "0")
			protocol, identity = least(w)
			require.Equal(w, 0, protocol)
			require.Equal(w, same, identity)
		}},
		promise{"counts_a_worker_without_a_number_as_the_first", func(w *world) {
			old := w.process("q")
			w.redis("HDEL", w.keys.Record(old), "protocol")
			protocol, identity := least(w)
			require.Equal(w, FirstProtocol, protocol)
			require.Equal(w, old, identity)
		}},
		promise{"counts_lapsed_processes_and_none_that_were_declared_dead", func(w *world) {
			old := w.process("q")
			w.redis("HSET", w.keys.Record(old), "protocol", "0")
			w.lapse(old)
			protocol, _ := least(w)
			require.Equal(w, 0, protocol, "it may renew its session")
			w.redis("ZADD", w.keys.Alive(), "0", old)
			_, identity := least(w)
			require.Empty(w, identity)
		}},
		promise{"reads_more_processes_than_a_page", func(w *world) {
			for n := range MaxItems + 1 {
				w.redis("ZADD", w.keys.Alive(), strconv.Itoa(n+1), "old:"+strconv.Itoa(n))
				w.redis("HSET", w.keys.Record("old:"+strconv.Itoa(n)), "protocol", strconv.Itoa(Protocol+1))
			}
			w.redis("HSET", w.keys.Record("old:"+strconv.Itoa(MaxItems)), "protocol", "0")
			protocol, identity := least(w)
			require.Equal(w, 0, protocol)
			require.Equal(w, "old:"+strconv.Itoa(MaxItems), identity)
		}},
	)
}
