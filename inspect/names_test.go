package inspect

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

// Any program that can write to Redis chooses names, and what is shown of them is bounded.
func TestNamesThatAreTooLongAreCountedAndNotListed(t *testing.T) {
	long := strings.Repeat("q", maxName+1)
	promises(t, map[string]func(w *world){
		"queues and processes": func(w *world) {
			w.do("SADD", w.keys.Queues(), "mail", long[1:], long, long+"r", "odd\x1b")
			w.do("SADD", w.keys.Processes(), "vm:1:a", long)
			s := w.status()
			names := make([]string, len(s.Queues))
			for n, queue := range s.Queues {
				names[n] = queue.Name
			}
			require.Equal(w, []string{"mail", "odd\x1b", long[1:]}, names)
			require.Equal(w, int64(5), s.QueueCount)
			require.Len(w, s.Processes, 1)
			require.Equal(w, []string{"queues: names of more than 255 bytes are not listed; there are 2", "processes: names of more than 255 bytes are not listed; there are 1"}, s.Problems)
			require.NoError(w, s.QueuesErr, "Redis has refused nothing")
		},
		"jids and queues of jobs": func(w *world) {
			huge := strings.Repeat("j", 1<<20)
			w.fill(w.keys.Dead(), 1, sample("A", long[1:]), strings.Replace(sample("A", huge), `"queue":"q"`, `"queue":"`+huge+`"`, 1))
			ids := w.ids(Dead(), 0)
			require.Len(w, ids, 2)
			require.Regexp(w, `^unreadable-[0-9a-f]{12}$`, ids[0])
			require.Equal(w, long[1:], ids[1], "one that can be pushed is its own ID")
			for entry, err := range w.inspector.Entries(w.Context(), Dead(), 0) {
				require.NoError(w, err)
				require.Less(w, len(entry.Queue), 300)
				require.Less(w, len(entry.Ref()), 300)
				entry.Args = nil
				text, err := json.Marshal(entry)
				require.NoError(w, err)
				require.Less(w, len(text), 2000)
			}
			require.Equal(w, 1, w.act(Dead(), Delete, Selection{IDs: ids[:1]}).Moved, "it is chosen by that ID")
			require.Equal(w, ids[1:], w.ids(Dead(), 0))
		},
	})
}

func TestARunWithALongJIDIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("j", 1000)
	payload := sample("A", long)
	entry, err := json.Marshal(map[string]any{"queue": long, "payload": payload, "run_at": 1})
	require.NoError(t, err)
	run, err := new(Inspector).readRun("t1", string(entry), time.Now())
	require.NoError(t, err)
	require.Equal(t, newEntry(Dead(), lua.Entry{Bytes: payload}).ID, run.JID, "as where its bytes are")
	require.Less(t, len(run.Queue), 300)
}
