package integration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

// One job goes through everything that can happen to a job, and is at its end what it was at its beginning.
func TestBytesAreKeptFromPushToEnd(t *testing.T) {
	t.Parallel()
	const args = `[9007199254740993,12345678901234567890,1.0,1e21,-0,[],{},[[],{}],{"a":{"z":[]}},"é<&>\u2028/"]`
	eachClient(t, func(t *testing.T, s *site) {
		t.Parallel()
		book, jid, runs := newLedger(t), newJID(), 0
		requireRun := func() {
			t.Helper()
			runs++
			require.Equal(t, args, string(book.awaitStart(jid, runs).Input), "run %d", runs)
		}
		requireKept := func(entry string, fields ...string) {
			t.Helper()
			require.Contains(t, entry, `"args":`+args+`,`)
			require.Contains(t, entry, `{"retry":true,`+oddField+`,"queue":"odd",`)
			for _, field := range fields {
				require.Equal(t, 1, strings.Count(entry, field), "%s in %s", field, entry)
			}
		}
		retried := func(times string) string {
			t.Helper()
			eventually(t, "a failure to be in the retry set", func() bool {
				entries := s.set(s.keys.Retry())
				return len(entries) == 1 && strings.Contains(entries[0], times)
			})
			return s.set(s.keys.Retry())[0]
		}

		s.do("ZADD", s.keys.Schedule(), "1000000000.5", oddPayload(jid, args))
		failing := s.work("-q", "odd", "-c", "1", "--exec", book.exec("Odd", "-fail", "boom"))
		for _, times := range []string{`"retry_count":0`, `"retry_count":1`} {
			requireRun()
			entry := retried(times)
			requireKept(entry, times, `"enqueued_at":`, `"error_message":`)
			s.do("ZADD", s.keys.Retry(), "XX", "1000000000", entry) // its time has come
		}
		requireRun()
		entry := retried(`"retry_count":2`)
		waitTerm(t, failing)

		victim := s.work(append(fast, "-q", "odd", "-c", "1", "--exec", book.exec("Odd", "-for", "1h"))...)
		s.do("ZADD", s.keys.Retry(), "XX", "1000000000", entry)
		requireRun() // the third retry
		s.work(append(fast, "-q", "other", "-c", "1", "--exec", book.exec("Odd"))...)
		victim.kill()
		eventually(t, "the job to be back in its queue", func() bool { return len(s.list(s.keys.Queue("odd"))) == 1 })
		recovered := s.list(s.keys.Queue("odd"))[0]
		requireKept(recovered, `"interrupted_count":1`, `"retry_count":2`, `"enqueued_at":`)

		quitter := s.work("-q", "odd", "-c", "1", "--shutdown-timeout", "0s", "--exec", book.exec("Odd", "-for", "1h"))
		requireRun()
		waitTerm(t, quitter)
		require.Equal(t, []string{recovered}, s.list(s.keys.Queue("odd")), "a requeue changes nothing")

		s.work("-q", "odd", "-c", "1", "--exec", book.exec("Odd"))
		requireRun()
		book.awaitEnd(jid)
		require.Equal(t, 6, runs)
		eventually(t, "its end to be counted", func() bool { return s.text(s.keys.Processed()) == "4" })
		require.Equal(t, "3", s.text(s.keys.Failed()))
	}, oracle.Allow(oracle.Retry, oracle.Retry))
}
