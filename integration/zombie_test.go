package integration

import (
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A worker that is frozen past its death wakes up with a job in hand that another has finished.
func TestZombie(t *testing.T) {
	t.Parallel()
	for _, run := range []struct {
		name  string
		ends  bool
		flags []string
	}{
		{"whose run ended while it was away writes nothing for it", true, nil},
		{"whose run goes on cancels it and writes nothing for it", false, []string{"-deaf"}},
	} {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(t *testing.T, s *site) { zombie(t, s, run.ends, run.flags...) })
		})
	}
}

func zombie(t *testing.T, s *site, ends bool, flags ...string) {
	frozenBook, book, enough := newLedger(t), newLedger(t), newLeave(t)
	frozen := s.work(append(fast, "--exec", frozenBook.exec("Slow", append(flags, "-until", enough.path)...))...)
	jid := s.push("Slow", "default", jsonArgs(1, 0))
	frozenBook.awaitStart(jid, 1)
	frozen.signal(syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(frozen.pid, syscall.SIGCONT) })

	other := s.work(append(fast, "--exec", book.exec("Slow"))...)
	book.awaitEnd(jid)
	eventually(t, "the job to be counted", func() bool { return s.text(s.keys.Processed()) == "1" })
	if ends {
		enough.give()
		frozenBook.awaitEnd(jid) // hands are not frozen with their worker
	}
	frozen.signal(syscall.SIGCONT)
	frozen.awaitLog("ownership lost")
	eventually(t, "its hand to be gone", func() bool { return len(processesWith(t, frozenBook.path)) == 1 }) // the worker itself

	frozen.awaitLog("re-registered with a new identity")
	names := frozen.identities()
	require.Len(t, names, 2)
	eventually(t, "its new identity to be shown", func() bool { return slices.Contains(s.shown(frozen.pid), names[1]) })
	require.NotContains(t, s.shown(frozen.pid), names[0])

	other.signal(syscall.SIGTERM)
	require.Zero(t, other.wait(), other.log())
	alone := s.push("Slow", "default", jsonArgs(2, 0))
	require.Equal(t, frozen.pid, frozenBook.awaitStart(alone, 1).Worker)
	if ends {
		eventually(t, "it to be counted", func() bool { return s.text(s.keys.Processed()) == "2" })
	} else {
		require.Equal(t, "1", s.text(s.keys.Processed()))
	}
	require.Empty(t, s.text(s.keys.Failed()))
	require.Empty(t, s.set(s.keys.Retry()))
	require.Len(t, frozenBook.starts(jid), 1)
	require.Len(t, book.starts(jid), 1)
}

// shown are the identities that belay status shows for a living process of that number.
func (s *site) shown(pid int) []string {
	s.t.Helper()
	var names []string
	for _, p := range s.status().Processes {
		if p.PID == pid && p.State == "alive" {
			names = append(names, p.Identity)
		}
	}
	return names
}
