package lua

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnnounce(t *testing.T) {
	fields := []string{"info", `{"hostname":"h"}`, "busy", "1", "beat", "1700000000.5", "quiet", "false"}
	keep(t,
		promise{"writes_what_readers_of_every_Ruby_version_expect", func(w *world) {
			identity := w.process("q")
			require.True(w, ask(w, w.keys.Announce(identity, fields, []string{"t1", `{"queue":"q"}`, "t2", "{}"})))
			require.Equal(w, []string{identity}, w.texts("SMEMBERS", w.keys.Processes()))
			require.Equal(w, map[string]string{
				"info": `{"hostname":"h"}`, "busy": "1", "beat": "1700000000.5", "quiet": "false",
			}, w.hash(w.keys.Process(identity)))
			for _, key := range []string{w.keys.Work(identity), w.keys.Workers(identity)} {
				require.Equal(w, map[string]string{"t1": `{"queue":"q"}`, "t2": "{}"}, w.hash(key))
			}
			for _, key := range []string{w.keys.Process(identity), w.keys.Work(identity), w.keys.Workers(identity)} {
				require.InDelta(w, announceTTL.Seconds(), w.number("TTL", key), 30, "a silent process goes by itself")
			}
		}},
		promise{"again_replaces_the_running_jobs_and_prolongs", func(w *world) {
			identity := w.process("q")
			ask(w, w.keys.Announce(identity, fields, []string{"t1", "{}"}))
			w.redis("EXPIRE", w.keys.Process(identity), "5")
			ask(w, w.keys.Announce(identity, fields, []string{"t2", "{}"}))
			require.Equal(w, map[string]string{"t2": "{}"}, w.hash(w.keys.Work(identity)))
			require.Greater(w, w.number("TTL", w.keys.Process(identity)), 5)
			ask(w, w.keys.Announce(identity, fields, nil))
			require.Equal(w, 0, w.number("EXISTS", w.keys.Work(identity), w.keys.Workers(identity)))
		}},
		promise{"is_kept_by_plain_commands_that_tell_if_it_is_gone", func(w *world) {
			identity := w.process("q")
			keep := func() bool {
				calls, enough := w.keys.KeepAnnounced(identity, []string{"beat", "1700000001.5"})
				return enough(w.client.Do(context.Background(), calls...))
			}
			ask(w, w.keys.Announce(identity, fields, nil))
			w.redis("EXPIRE", w.keys.Process(identity), "5")
			require.True(w, keep())
			require.Equal(w, "1700000001.5", w.hash(w.keys.Process(identity))["beat"])
			require.Greater(w, w.number("TTL", w.keys.Process(identity)), 5)

			w.redis("DEL", w.keys.Process(identity))
			require.False(w, keep())
			require.Positive(w, w.number("TTL", w.keys.Process(identity)), "what it left goes by itself")
			ask(w, w.keys.Announce(identity, fields, nil))
			require.True(w, keep())
			w.redis("SET", w.keys.Process(identity), "of another type")
			require.False(w, keep(), "the first call was refused")
		}},
		promise{"writes_nothing_after_a_tombstone", func(w *world) {
			identity := w.process("q")
			ask(w, w.keys.Deregister(identity, []string{"q"}))
			w.unchanged(func() { require.False(w, ask(w, w.keys.Announce(identity, fields, []string{"t1", "{}"}))) })
		}},
	)
}
