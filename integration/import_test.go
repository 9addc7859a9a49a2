package integration

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The imports of these tests are one of twenty minutes, scaled down by about forty.
const (
	importItems = 12_000
	importEach  = 2 * time.Millisecond
	// importSave is the save interval, and hiccup what a busy machine may add to an item.
	importSave = 300 * time.Millisecond
	hiccup     = 200 * time.Millisecond
)

// An imported is an item that was done: which, by which process, and when.
type imported struct {
	N, PID int
	At     int64
}

// An importing is an import and its workers.
type importing struct {
	*site
	program string
	book    *ledger
	jid     string
}

func newImporting(t *testing.T, s *site) *importing {
	t.Helper()
	i := &importing{site: s, program: buildWorker(t, "./testdata/importworker"), book: newLedger(t)}
	i.jid = s.push("Import", "default", "[]")
	return i
}

func (i *importing) worker() *process {
	i.t.Helper()
	return i.launch(i.program, "-redis", i.url, "-prefix", i.prefix, "-client", i.client, "-ledger", i.book.path,
		"-items", strconv.Itoa(importItems), "-each", importEach.String(), "-save", importSave.String())
}

// items are all that were done, in their order.
func (i *importing) items() (items []imported) {
	i.t.Helper()
	text, err := os.ReadFile(i.book.path)
	if !os.IsNotExist(err) {
		require.NoError(i.t, err)
	}
	for line := range bytes.Lines(text) {
		var item imported
		require.NoError(i.t, json.Unmarshal(line, &item))
		items = append(items, item)
	}
	return items
}

// by are the items that one process did.
func (i *importing) by(p *process) (items []imported) {
	i.t.Helper()
	for _, item := range i.items() {
		if item.PID == p.pid {
			items = append(items, item)
		}
	}
	return items
}

// ends waits for the end of the import, and holds that it was done, whatever happened to its workers.
func (i *importing) ends() {
	i.t.Helper()
	eventually(i.t, "the end of the import", func() bool { return i.text(i.keys.Processed()) == "1" })
	done := make(map[int]bool)
	for _, item := range i.items() {
		done[item.N] = true
	}
	for n := 1; n <= importItems; n++ {
		require.True(i.t, done[n], "item %d was skipped", n)
	}
	require.Empty(i.t, i.text(i.keys.Failed()))
	for _, set := range []string{i.keys.Retry(), i.keys.Schedule(), i.keys.Dead()} {
		require.Empty(i.t, i.set(set))
	}
	require.Equal(i.t, int64(0), i.do("EXISTS", i.keys.Iteration(i.jid)), "the cursor ends with the job")
}

// A long import is killed and stopped thirty times. It skips no item. After a stop it repeats none, and after a
// kill at most those of one save interval; and however often it is killed, it is not quarantined.
func TestALongImportSurvivesThirtyKillsAndStops(t *testing.T) {
	eachClient(t, func(t *testing.T, s *site) {
		i := newImporting(t, s)
		repeated, longest := 0, time.Duration(0)
		var before []imported
		for n := range 30 {
			w := i.worker()
			eventually(t, "it to import", func() bool { return len(i.by(w)) > 0 })
			time.Sleep(importSave/2 + rand.N(importSave))
			require.Empty(t, i.text(i.keys.Processed()), "the import has ended: make it longer")
			killed := n%2 == 0
			if killed {
				w.kill()
			} else {
				waitTerm(t, w)
			}
			require.False(t, w.says("quarantined"), w.log())
			items := i.by(w)
			if n > 0 {
				first, last := items[0], before[len(before)-1]
				if killedBefore := !killed; !killedBefore {
					require.Equal(t, last.N+1, first.N, "after a stop")
				} else if first.N <= last.N {
					require.GreaterOrEqual(t, first.N, before[0].N, "the cursor went back")
					since := time.Duration(last.At - before[first.N-before[0].N].At)
					require.LessOrEqual(t, since, importSave+hiccup, "more than one save interval is repeated")
					repeated, longest = repeated+last.N-first.N+1, max(longest, since)
				} else {
					require.Equal(t, last.N+1, first.N)
				}
			}
			before = items
		}
		i.worker()
		i.ends()
		t.Logf("%d of %d items were repeated after 15 kills; the oldest was done %v before its kill", repeated, importItems, longest)
	})
}

// A worker is frozen in the middle of an import until another has recovered the job and gone on. When it wakes
// up, it changes no cursor: the oracle, which judges each write of one, and the items show it.
func TestAThawedImportChangesNoCursor(t *testing.T) {
	t.Parallel()
	eachClientAtOnce(t, func(t *testing.T, s *site) {
		i := newImporting(t, s)
		zombie := i.worker()
		eventually(t, "it to import", func() bool { return len(i.by(zombie)) > int(2*importSave/importEach/2) })
		zombie.signal(syscall.SIGSTOP)
		t.Cleanup(func() { _ = syscall.Kill(zombie.pid, syscall.SIGCONT) })
		frozen := len(i.by(zombie))
		other := i.worker()
		eventually(t, "the other to go on", func() bool { return len(i.by(other)) > int(2*importSave/importEach/2) })
		zombie.signal(syscall.SIGCONT)
		zombie.awaitLog("re-registered with a new identity")
		zombie.awaitLog("ownership lost")
		time.Sleep(importSave)
		late := len(i.by(zombie)) - frozen
		require.LessOrEqual(t, late, int((importSave+hiccup)/importEach), "it goes on")
		waitTerm(t, zombie)
		other.kill() // so that the cursor in Redis decides
		i.worker()
		i.ends()
		t.Logf("the thawed worker did %d more items", late)
	})
}
