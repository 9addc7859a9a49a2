package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

// A process is frozen past its death while it runs a job. Another brings the job back, runs it and fails, and
// the retry comes to the first one, whose handler heeds nothing: the job does not run beside its abandoned run,
// what lies behind it does, and the log says where the handler hangs.
func TestAbandonedRun(t *testing.T) {
	t.Parallel()
	s := ordinarySite(t, oracle.Allow(oracle.Retry, oracle.Retry))
	frozenBook, book := newLedger(t), newLedger(t)
	release := filepath.Join(t.TempDir(), "release")
	t.Cleanup(func() { _ = os.WriteFile(release, nil, 0o600) })

	frozen := s.launch(buildWorker(t, "./testdata/worker"), "-redis", s.url, "-prefix", s.prefix, frozenBook.path, release)
	frozen.awaitLog("working")
	jid := s.push("Deaf", "default", "[]")
	frozenBook.awaitStart(jid, 1)
	frozen.signal(syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(frozen.pid, syscall.SIGCONT) })

	other := s.work(append(fast, "--exec", book.exec("Deaf", "-fail", "elsewhere"))...)
	book.awaitEnd(jid)
	eventually(t, "its failure to be stored", func() bool { return len(s.set(s.keys.Retry())) == 1 })
	other.signal(syscall.SIGTERM)
	require.Zero(t, other.wait(), other.log())
	s.do("ZADD", s.keys.Retry(), "XX", "1", s.set(s.keys.Retry())[0]) // its time has come

	frozen.signal(syscall.SIGCONT)
	frozen.awaitLog("re-registered with a new identity")
	frozen.awaitLog("requeued: earlier run")
	var quick []string
	for range 20 {
		quick = append(quick, s.push("Quick", "default", "[]"))
	}
	for _, other := range quick {
		frozenBook.awaitEnd(other)
	}
	frozen.awaitLog("stuck: handler did not return")
	frozen.awaitLog("stuck run reported")
	frozen.awaitLog("main.work.func") // where it hangs
	frozen.awaitLog("ownership lost") // why it should have ended
	eventually(t, "status to show it as overdue", func() bool {
		out, errs, code := s.belay("status")
		require.Zero(t, code, errs)
		return strings.Contains(out, "overdue for")
	})
	require.Len(t, frozenBook.starts(jid), 1)

	require.NoError(t, os.WriteFile(release, nil, 0o600))
	again := frozenBook.awaitStart(jid, 2)
	require.False(t, again.At.Before(frozenBook.awaitEnd(jid).At), "one after the other")
	eventually(t, "the second run to be counted", func() bool { return s.text(s.keys.Processed()) == "22" })
	require.Equal(t, "1", s.text(s.keys.Failed()), "the one elsewhere")
	require.Len(t, book.starts(jid), 1)
	require.Empty(t, s.set(s.keys.Retry()))
}

// A stop does not wait for a handler that ignores it: the job goes back, and the log says where the handler
// hangs.
func TestStopLeavesADeafHandlerBehind(t *testing.T) {
	t.Parallel()
	s := ordinarySite(t)
	book := newLedger(t)
	deaf := s.launch(buildWorker(t, "./testdata/worker"), "-redis", s.url, "-prefix", s.prefix, book.path, filepath.Join(t.TempDir(), "never"))
	jid := s.push("Deaf", "default", "[]")
	book.awaitStart(jid, 1)
	deaf.signal(syscall.SIGTERM)
	require.Zero(t, deaf.wait(), deaf.log())
	require.Contains(t, deaf.log(), "abandoned run: handler did not return")
	require.Contains(t, deaf.log(), `"left":true`)
	require.Contains(t, deaf.log(), "main.work.func", "where it hangs")
	back := s.list(s.keys.Queue("default"))
	require.Len(t, back, 1)
	require.True(t, strings.Contains(back[0], jid) && !strings.Contains(back[0], "retry_count"), back[0])
	require.Empty(t, s.text(s.keys.Processed()))
}
