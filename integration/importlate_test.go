package integration

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/lua"
)

// A save can reach Redis long after its run: it lay in a socket, or in a network. Meanwhile the job has gone to
// another process, or back into the same hands, and a later run has saved a further cursor. The save changes
// nothing, and the job ends as ever.
func TestALateSaveChangesNoCursor(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		outcomes []string
		// on has the job run once more, and returns the worker that runs it.
		on func(i *importing, first *importer) *importer
	}{
		"of a killed worker": {nil, func(i *importing, first *importer) *importer {
			first.freeze() // so that the connection does not end with a word
			first.dies()
			return i.worker()
		}},
		"of a worker that was stopped": {nil, func(i *importing, first *importer) *importer {
			first.stops()
			require.Equal(i.t, []string{history.Interrupted}, first.outcomes())
			return i.worker()
		}},
		"of a worker that has requeued the job and taken it again": {[]string{history.Interrupted}, func(_ *importing, first *importer) *importer {
			return first
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(t *testing.T, s *site) { lateSave(t, newImporting(t, s, importItems/3, way.outcomes...), way.on) })
		})
	}
}

func lateSave(t *testing.T, i *importing, on func(i *importing, first *importer) *importer) {
	proxy, gate := faultproxy.New(t, i.server.Addr()), faultproxy.NewGate()
	t.Cleanup(gate.Open)
	// No program could load the script when its caller is gone.
	source, _ := i.keys.Save("", "", "", false, lua.JobState{}).Call.Script.Text(true)
	i.do("SCRIPT", "LOAD", source)
	// The first save of all alone has the first version, and after it the job's created_at.
	created := lua.StateOf(i.job).Created
	first := fmt.Sprintf("$1\r\n1\r\n$%d\r\n%s\r\n", len(created), created)
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: first, Nth: 1, Do: faultproxy.Hold(gate)})
	w := i.worker(proxy.URL())
	eventually(t, "a save", func() bool {
		select {
		case <-gate.Arrived():
			return true
		default:
			return false
		}
	})
	held := w.items()

	w = on(i, w)
	eventually(t, "the next run", func() bool { return i.runs() == 2 })
	held = max(held, i.cursor())
	eventually(t, "a further save", func() bool { return i.cursor() > held })
	thaw := w.freeze() // so that what the late save changes is not written over
	reached := i.cursor()
	i.do("CONFIG", "SET", "slowlog-log-slower-than", "0")
	gate.Open()
	eventually(t, "the late save to be executed", func() bool { return i.executed("1", created) })
	require.GreaterOrEqual(t, i.cursor(), reached)
	i.do("CONFIG", "SET", "slowlog-log-slower-than", "-1")
	thaw()
	i.ends()
}

// runs is how many have gone on.
func (i *importing) runs() (n int) {
	i.t.Helper()
	for _, e := range i.events("w*") {
		if e.Kind == history.Resumed {
			n++
		}
	}
	return n
}

// executed reports whether a save of this version and created_at is among the last commands that Redis executed.
func (i *importing) executed(version, created string) bool {
	i.t.Helper()
	entries, _ := i.do("SLOWLOG", "GET", "-1").([]any)
	return slices.ContainsFunc(entries, func(entry any) bool {
		fields, _ := entry.([]any)
		words := texts(fields[3])
		return len(words) > 7 && words[0] == "EVALSHA" && words[6] == version && words[7] == created
	})
}

// cursor is the one in Redis; 0 for none.
func (i *importing) cursor() int {
	i.t.Helper()
	text, _ := i.do("HGET", i.keys.Iteration(i.job.JID()), lua.FieldCursor).(string)
	n, _ := strconv.Atoi(text)
	return n
}
