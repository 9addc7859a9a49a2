package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// A worker has only those jobs in hand that it runs. Those that wait behind a job that kills worker after
// worker count no crash: they lie in their queue as they were pushed, and run when it is dead.
func TestWaitingJobsCountNoCrash(t *testing.T) {
	t.Parallel()
	const waiting = 50
	s, book := ordinarySite(t), newLedger(t)
	killing, path := crashingExec(t, "Killer")
	s.push("Killer", "default", "[]")
	for n := range waiting {
		s.push("Any", "default", jsonArgs(n, 0))
	}
	asPushed := s.list(s.keys.Queue("default"))[:waiting] // the crashing job is next, at the end
	words := append(fast, "-c", "1", "--exec", killing, "--exec", book.exec("Any"))
	require.Equal(t, -1, s.start(words...).wait(), "the job kills its worker")
	require.Equal(t, asPushed, s.list(s.keys.Queue("default")), "the crash changed what waits")
	fleet := s.supervise(1, words...)
	eventually(t, "the crashing job to die, and the others to be done", func() bool {
		return s.do("ZCARD", s.keys.Dead()) == int64(1) && len(book.ends("")) >= waiting
	})
	fleet.end()
	require.Equal(t, 3, lines(t, path), "starts of the crashing job")
	dead := s.set(s.keys.Dead())[0]
	parsed, err := job.Parse(dead)
	require.NoError(t, err)
	require.Equal(t, "Killer", parsed.Class())
	require.Equal(t, 3, parsed.InterruptedCount())
	require.Len(t, book.starts(""), waiting, "each once")
	require.Equal(t, "1", s.text(s.keys.Failed()), "the crashing job")
}
