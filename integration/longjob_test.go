package integration

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// long is how long a long job takes, where a worker counts as dead after four seconds. BELAY_LONG=1 takes several
// times as long.
func long() time.Duration {
	if os.Getenv("BELAY_LONG") == "1" {
		return 80 * time.Second
	}
	return 12 * time.Second
}

// However long a job takes, no other worker gets it as long as its worker runs: not while others come, die
// and are brought back all around it, and not while its worker, which has been stopped, waits for it. Those that
// are to live count as dead only when a busy machine has let them wait for longer than most.
func TestALongJobRunsOnce(t *testing.T) {
	t.Parallel()
	eachClientAtOnce(t, func(t *testing.T, s *site) {
		book := newLedger(t)
		w := s.work(append(hardy, "-c", "1", "--shutdown-timeout", "1m", "--exec", book.exec("Long", "-for", long().String()))...)
		jid := s.push("Long", "default", "[]")
		began := book.awaitStart(jid, 1).At
		witness := s.work(append(hardy, "-q", "default", "-q", "others", "-c", "1", "--exec", book.exec("*", "-for", "1ms"))...)
		stopping := false
		deaths := 0
		for !stopping || time.Since(began) < long()-time.Second {
			if !stopping && time.Since(began) > long()/3 {
				stopping = true
				w.signal(syscall.SIGTERM)
			}
			queue := fmt.Sprintf("dying%d", deaths)
			other := s.work(append(fast, "-q", queue, "-c", "1", "--exec", book.exec("Dying", "-for", "1h"))...)
			book.awaitStart(s.push("Dying", queue, "[]"), 1)
			time.Sleep(200 * time.Millisecond) // it lives for a beat
			other.kill()
			deaths++
		}
		require.Zero(t, w.wait(), w.log())
		require.Len(t, book.ends(jid), 1)
		require.Len(t, book.starts(jid), 1)
		require.Len(t, w.identities(), 1)
		require.False(t, w.says("ownership lost"))
		require.Equal(t, "1", s.text(s.keys.Processed()))
		identity := w.identities()[0]
		require.False(t, witness.says(identity), "the witness brought its jobs back")
		// Which of the two recovers a job is drawn.
		eventually(t, "a job to be recovered", func() bool { return witness.says("recovered") || w.says("recovered") })
		t.Logf("%d others died meanwhile", deaths)
	})
}
