package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stopped is how long a stop may take beyond its timeout: a second for cancelled handlers, two to requeue what they
// left, and the rest for a busy machine. The root's TestAStopEndsSoonAfterItsTimeout is exact.
const stopped = 10 * time.Second

// Six jobs that never end are begun and requeued by five workers, one after the other, some of whose
// handlers do not heed SIGTERM.
func TestStop(t *testing.T) {
	t.Parallel()
	t.Run("requeues what is unfinished, byte for byte and in order, five times over", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, s *site) {
			for n := range 6 {
				s.push("Endless", "default", jsonArgs(n, 600_000))
			}
			queued := s.list(s.keys.Queue("default"))
			for _, flags := range [][]string{nil, {"-deaf"}, nil, {"-deaf"}, nil} {
				book := newLedger(t)
				p := s.work("-c", "4", "--shutdown-timeout", "300ms", "--exec", book.exec("Endless", flags...))
				eventually(t, "four jobs to run", func() bool { return len(book.starts("")) == 4 })
				askedAt := time.Now()
				p.signal(syscall.SIGTERM)
				require.Zero(t, p.wait(), p.log())
				require.Less(t, time.Since(askedAt), 300*time.Millisecond+stopped)
				require.Equal(t, queued, s.list(s.keys.Queue("default")))
				requireHandsGone(t, book)
				require.Empty(t, book.ends(""))
				s.nothingCounted()
				require.NotContains(t, s.set(s.keys.Alive()), p.identities()[0])
			}
		})
	})
	t.Run("lets running jobs finish within the timeout, and takes no more", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, s *site) {
			book, enough := newLedger(t), newLeave(t)
			p := s.work("-c", "1", "--exec", book.exec("Short", "-until", enough.path))
			first := s.push("Short", "default", jsonArgs(1, 0))
			book.awaitStart(first, 1)
			s.push("Short", "default", jsonArgs(2, 0))
			p.signal(syscall.SIGINT)
			p.awaitLog(`"signal":"SIGINT"`)
			enough.give()
			require.Zero(t, p.wait(), p.log())
			require.Len(t, book.ends(first), 1)
			require.Len(t, book.starts(""), 1)
			require.Len(t, s.list(s.keys.Queue("default")), 1)
			require.Equal(t, "1", s.text(s.keys.Processed()))
		})
	})
	t.Run("asked for twice ends at once, with a requeue", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, s *site) {
			book := newLedger(t)
			jid := s.push("Endless", "default", jsonArgs(1, 600_000))
			queued := s.list(s.keys.Queue("default"))
			p := s.work("--exec", book.exec("Endless")) // 25 s would be its timeout
			book.awaitStart(jid, 1)
			p.signal(syscall.SIGTERM)
			p.awaitLog(`"signal":"SIGTERM"`)   // two signals before the first is noticed are one
			time.Sleep(300 * time.Millisecond) // and so is one that comes within 200 ms of it
			require.Len(t, book.starts(jid), 1)
			askedAt := time.Now()
			p.signal(syscall.SIGTERM)
			require.Zero(t, p.wait(), p.log())
			require.Less(t, time.Since(askedAt), stopped)
			require.Equal(t, queued, s.list(s.keys.Queue("default")))
			requireHandsGone(t, book)
			s.nothingCounted()
		})
	})
}

// requireHandsGone holds that no hand, which would work for long, outlives its worker's stop. One that was
// killed is there until the machine has had a moment for it.
func requireHandsGone(t *testing.T, book *ledger) {
	t.Helper()
	eventually(t, "the hands to be gone", func() bool { return len(processesWith(t, book.path)) == 0 })
}

func (s *site) nothingCounted() {
	s.t.Helper()
	require.Empty(s.t, s.text(s.keys.Processed()))
	require.Empty(s.t, s.text(s.keys.Failed()))
	require.Empty(s.t, s.set(s.keys.Retry()))
	require.Empty(s.t, s.set(s.keys.Dead()))
}

func TestSignals(t *testing.T) {
	t.Parallel()
	for _, quiet := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGUSR1} {
		t.Run("quiet takes nothing more and lets running jobs finish, "+quiet.String(), func(t *testing.T) {
			t.Parallel()
			s, book := ordinarySite(t), newLedger(t)
			p := s.work("--exec", book.exec("Short"))
			first := s.push("Short", "default", jsonArgs(1, 1000))
			book.awaitStart(first, 1)
			p.signal(quiet)
			eventually(t, "status to show it quiet", func() bool {
				shown := s.status().Processes
				return len(shown) == 1 && shown[0].Quiet
			})
			s.push("Short", "default", jsonArgs(2, 0))
			book.awaitEnd(first)
			eventually(t, "it to be counted", func() bool { return s.text(s.keys.Processed()) == "1" })
			require.Len(t, s.list(s.keys.Queue("default")), 1)
			require.Len(t, book.starts(""), 1)
			p.signal(syscall.SIGTERM)
			require.Zero(t, p.wait(), p.log())
		})
	}
	t.Run("TTIN writes the goroutines and the running jobs to the log", func(t *testing.T) {
		t.Parallel()
		s, book := ordinarySite(t), newLedger(t)
		p := s.work("--exec", book.exec("Endless"))
		jid := s.push("Endless", "default", jsonArgs(1, 600_000))
		book.awaitStart(jid, 1)
		p.signal(syscall.SIGTTIN)
		p.awaitLog("goroutine ")
		running := slices.ContainsFunc(slices.Collect(strings.Lines(p.log())), func(line string) bool {
			var entry struct{ Message, JID, Class string }
			return json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "running" && entry.JID == jid && entry.Class == "Endless"
		})
		require.True(t, running, p.log())
		require.Len(t, s.list(s.keys.Working("default", p.identities()[0])), 1, "it works on")
	})
	t.Run("USR2 opens the log file anew", func(t *testing.T) {
		t.Parallel()
		s, book := ordinarySite(t), newLedger(t)
		path := filepath.Join(t.TempDir(), "work.log")
		p := s.start("--logfile", path, "--exec", book.exec("Short"))
		eventually(t, "the log file", func() bool { return strings.Contains(read(path), "working") })
		require.NoError(t, os.Rename(path, path+".1"))
		p.signal(syscall.SIGUSR2)
		eventually(t, "a new log file", func() bool { _, err := os.Stat(path); return err == nil })
		old := read(path + ".1")
		p.signal(syscall.SIGTERM)
		require.Zero(t, p.wait())
		require.Contains(t, read(path), "stopped")
		require.Equal(t, old, read(path+".1"))
	})
}

func read(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}
