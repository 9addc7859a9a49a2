package integration

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
	court "github.com/belayq/belay/integration/verdict"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
)

// The imports of these tests are one of twenty minutes, scaled down by about forty.
const (
	importItems = 12_000
	importEach  = 2 * time.Millisecond
	importSave  = 300 * time.Millisecond
	// perSave is how many items a run does at most between two saves.
	perSave = int(importSave / importEach)
)

// An importing is a checkpointed job and its workers, which are those of a chaos run, as is the judge.
type importing struct {
	*site
	program, dir string
	book         *history.Writer
	job          *job.Job
	workers      int
}

// An importer is one of the workers.
type importer struct {
	*process
	of   *importing
	name string
}

// newImporting pushes an import. outcomes are those of its first runs.
func newImporting(t *testing.T, s *site, items int, outcomes ...string) *importing {
	t.Helper()
	i := &importing{site: s, dir: t.TempDir()}
	var err error
	i.program, err = chaosWorker()
	require.NoError(t, err)
	i.book, err = history.Create(i.dir, "nemesis")
	require.NoError(t, err)
	t.Cleanup(func() { _ = i.book.Close() })
	require.NoError(t, i.plan().Save(i.dir))
	spec := &history.Spec{Kind: chaosplan.Checkpointed, Items: items, Millis: int(importEach / time.Millisecond), Outcomes: outcomes, Retries: -1}
	const token = "the import"
	args, err := json.Marshal([]any{token, spec})
	require.NoError(t, err)
	i.job, err = job.Parse(rubyPayload(chaosplan.Class, "default", string(args), newJID()))
	require.NoError(t, err)
	i.book.Append(history.Event{Kind: history.Invoke, Token: token, JID: i.job.JID(), Queue: "default", Spec: spec})
	i.do("LPUSH", i.keys.Queue("default"), i.job.Raw())
	i.book.Append(history.Event{Kind: history.Accepted, Token: token, JID: i.job.JID()})
	return i
}

// plan has the workers' settings, and no jobs and faults.
func (i *importing) plan() *chaosplan.Plan {
	return &chaosplan.Plan{Settings: chaosplan.Settings{
		Beat: 100 * time.Millisecond, TTL: 400 * time.Millisecond, Save: importSave, ShutdownTimeout: patience, Concurrency: 2,
	}}
}

// worker starts a worker that reaches Redis at an address, which is the server's own unless it is given.
func (i *importing) worker(url ...string) *importer {
	i.t.Helper()
	i.workers++
	w := &importer{of: i, name: "w" + strconv.Itoa(i.workers)}
	i.book.Append(history.Event{Kind: history.Launch, Proc: w.name})
	w.process = i.launch(i.program, "--redis", append(url, i.url)[0], "--prefix", i.prefix, "--client", i.client, "--dir", i.dir, "--proc", w.name)
	return w
}

// sends sends a signal, which is one of those of a chaos run.
func (w *importer) sends(sig syscall.Signal, name string) {
	w.t.Helper()
	w.of.book.Append(history.Event{Kind: history.Signalled, Proc: w.name, Fault: name})
	w.signal(sig)
}

// dies kills the worker.
func (w *importer) dies() {
	w.t.Helper()
	w.sends(syscall.SIGKILL, "KILL")
	w.kill()
	w.of.book.Append(history.Event{Kind: history.Gone, Proc: w.name})
}

// stops ends the worker by TERM.
func (w *importer) stops() {
	w.t.Helper()
	w.sends(syscall.SIGTERM, "TERM")
	require.Zero(w.t, w.wait(), w.log())
	w.of.book.Append(history.Event{Kind: history.Gone, Proc: w.name})
}

// freeze stops the worker until thaw is called.
func (w *importer) freeze() (thaw func()) {
	w.t.Helper()
	e := history.Event{Kind: history.Begin, Proc: w.name, Fault: string(chaosplan.Stop)}
	w.of.book.Append(e)
	faultproxy.Freeze(w.t, w.pid)()
	w.t.Cleanup(func() { _ = syscall.Kill(w.pid, syscall.SIGCONT) })
	return func() {
		w.signal(syscall.SIGCONT)
		e.Kind = history.End
		w.of.book.Append(e)
	}
}

// events are what workers of these names wrote.
func (i *importing) events(names string) []history.Event {
	i.t.Helper()
	events, err := history.ReadOf(i.dir, names)
	require.NoError(i.t, err)
	return events
}

// items is how many items the worker has done.
func (w *importer) items() (n int) {
	w.t.Helper()
	for _, e := range w.of.events(w.name) {
		if e.Kind == history.ItemDone {
			n++
		}
	}
	return n
}

// outcomes are those of the worker's runs that ended.
func (w *importer) outcomes() (outcomes []string) {
	w.t.Helper()
	for _, e := range w.of.events(w.name) {
		if e.Kind == history.Finish {
			outcomes = append(outcomes, e.Outcome)
		}
	}
	return outcomes
}

// imports waits until the worker has done so many items more.
func (w *importer) imports(more int) {
	w.t.Helper()
	more += w.items()
	eventually(w.t, "it to import", func() bool { return w.items() >= more })
}

// judge judges the histories. Before the import has ended, it looks for what no end can mend.
func (i *importing) judge(ended bool) *court.Verdict {
	i.t.Helper()
	s := i.plan().Settings
	v := court.Judge(i.events("*"), court.Facts{Beat: s.Beat, TTL: s.TTL, Save: s.Save, Concurrency: s.Concurrency})
	if !ended {
		delete(v.Breaches, court.Lost)
	}
	require.True(i.t, v.Lawful(), "%v", v)
	return v
}

// ends waits for the end of the import, and holds that it was done, whatever happened to its workers.
func (i *importing) ends() *court.Verdict {
	i.t.Helper()
	eventually(i.t, "the end of the import", func() bool { return i.text(i.keys.Processed()) == "1" })
	require.Empty(i.t, i.text(i.keys.Failed()))
	for _, set := range []string{i.keys.Retry(), i.keys.Schedule(), i.keys.Dead()} {
		require.Empty(i.t, i.set(set))
	}
	require.Equal(i.t, int64(0), i.do("EXISTS", i.keys.Iteration(i.job.JID())), "the cursor ends with the job")
	v := i.judge(true)
	require.Equal(i.t, 1, v.Done)
	i.t.Log(v)
	return v
}

// A long import is killed and stopped thirty times. It skips no item. After a stop it repeats none, and after a
// kill at most those of one save interval; and however often it is killed, it is not quarantined.
func TestALongImportSurvivesThirtyKillsAndStops(t *testing.T) {
	t.Parallel()
	eachClientAtOnce(t, func(t *testing.T, s *site) {
		i := newImporting(t, s, importItems)
		for n := range 30 {
			w := i.worker()
			w.imports(perSave/2 + rand.N(perSave)) // not a time, in which a busy machine lets it do more or fewer
			require.Empty(t, i.text(i.keys.Processed()), "the import has ended: make it longer")
			if n%2 == 0 {
				w.dies()
			} else {
				w.stops()
				require.Equal(t, []string{history.Interrupted}, w.outcomes())
			}
			require.False(t, w.says("quarantined"), w.log())
			i.judge(false)
		}
		i.worker()
		v := i.ends()
		require.Equal(t, importItems, v.Items-v.AgainItems)
		require.GreaterOrEqual(t, v.Resumed, 15, "it goes on after each stop at least")
	})
}

// A worker is frozen in the middle of an import until another has recovered the job and gone on. When it wakes
// up, it changes no cursor: the oracle, which judges each write of one, and the items show it.
func TestAThawedImportChangesNoCursor(t *testing.T) {
	t.Parallel()
	eachClientAtOnce(t, func(t *testing.T, s *site) {
		i := newImporting(t, s, importItems/2)
		zombie := i.worker()
		zombie.imports(perSave)
		thaw := zombie.freeze()
		other := i.worker()
		other.imports(perSave)
		before := zombie.items()
		thaw()
		zombie.awaitLog("re-registered with a new identity")
		zombie.awaitLog("ownership lost")
		eventually(t, "the end of its run", func() bool { return len(zombie.outcomes()) == 1 })
		late := zombie.items() - before
		require.LessOrEqual(t, late, perSave, "it goes on")
		zombie.stops()
		other.dies() // so that the cursor in Redis decides
		i.worker()
		i.ends()
		t.Logf("the thawed worker did %d more items", late)
	})
}
