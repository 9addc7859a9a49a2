package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

// oddArgs are what a library spoils that reads JSON and writes it again: whole numbers beyond 2^53 and beyond
// 2^64, a float without a fraction, an exponent, a negative zero, empty containers, key order, escapes that
// need not be there and characters that need none. oddField is a field of another program.
const (
	oddArgs  = `[9007199254740993,12345678901234567890,1.0,1e21,-0,[],{},[[],{}],{"a":{"z":[]}},{"b":1,"a":2},"é<&>\u2028/","é<&>` + "\u2028" + `/"]`
	oddField = `"x_future":{"a":[1]}`
)

// pushOdd stores such a job, and answers its jid and its bytes.
func pushOdd(s *site) (jid, payload string) {
	s.t.Helper()
	jid = newJID()
	payload = oddPayload(jid, oddArgs)
	s.do("SADD", s.keys.Queues(), "odd")
	s.do("LPUSH", s.keys.Queue("odd"), payload)
	return jid, payload
}

func oddPayload(jid, args string) string {
	return fmt.Sprintf(`{"retry":true,%s,"queue":"odd","args":%s,"class":"Odd","jid":%q,"created_at":1795244073.7970564}`, oddField, args, jid)
}

// requireOnlyAdded holds that fields were added to a payload and nothing else was done to it.
func requireOnlyAdded(t *testing.T, payload, now string, names ...string) {
	t.Helper()
	added, ok := strings.CutPrefix(now, strings.TrimSuffix(payload, "}"))
	require.True(t, ok, "%s became %s", payload, now)
	for _, name := range names {
		require.Contains(t, added, `,"`+name+`":`)
	}
	require.Equal(t, len(names), strings.Count(added, `,"`), "more than %v was added: %s", names, added)
}

// A job's bytes are what was pushed, whatever happens to the job: the program reads them so, and every move
// keeps them.
func TestBytesAreKept(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		t.Run("by the schedule", func(t *testing.T) {
			s, book := s.anew(t), newLedger(t)
			payload := oddPayload(newJID(), oddArgs)
			s.do("ZADD", s.keys.Schedule(), "1000000000.5", payload)
			s.work("-q", "other", "-c", "1", "--exec", book.exec("Odd"))
			eventually(t, "the job to be in its queue", func() bool { return len(s.list(s.keys.Queue("odd"))) == 1 })
			requireOnlyAdded(t, payload, s.list(s.keys.Queue("odd"))[0], "enqueued_at")
		})
		t.Run("by a failure", func(t *testing.T) {
			s, book := s.anew(t), newLedger(t)
			jid, payload := pushOdd(s)
			p := s.work("-q", "odd", "-c", "1", "--exec", book.exec("Odd", "-fail", "boom"))
			require.Equal(t, oddArgs, string(book.awaitStart(jid, 1).Input))
			eventually(t, "the entry in the retry set", func() bool { return len(s.set(s.keys.Retry())) == 1 })
			entry := s.set(s.keys.Retry())[0]
			requireOnlyAdded(t, payload, entry, "error_message", "error_class", "failed_at", "retry_count")
			waitTerm(t, p)

			s.do("ZADD", s.keys.Retry(), "XX", "1000000000", entry) // its time has come
			p = s.work("-q", "odd", "-c", "1", "--exec", book.exec("Odd", "-fail", "bang"))
			require.Equal(t, oddArgs, string(book.awaitStart(jid, 2).Input))
			eventually(t, "the entry to come again", func() bool { return len(s.set(s.keys.Retry())) == 1 })
			waitTerm(t, p)
			entry = s.set(s.keys.Retry())[0]
			require.True(t, strings.HasPrefix(entry, strings.TrimSuffix(payload, "}")), entry)
			require.Contains(t, entry, `"retry_count":1`)
			require.Contains(t, entry, `exit status 1: bang`)
		})
		t.Run("by a requeue", func(t *testing.T) {
			s, book := s.anew(t), newLedger(t)
			jid, payload := pushOdd(s)
			p := s.work("-q", "odd", "-c", "1", "--shutdown-timeout", "0s", "--exec", book.exec("Odd", "-for", "1h"))
			require.Equal(t, oddArgs, string(book.awaitStart(jid, 1).Input))
			waitTerm(t, p)
			require.Equal(t, []string{payload}, s.list(s.keys.Queue("odd")))
		})
		t.Run("by a recovery", func(t *testing.T) {
			s, book := s.anew(t), newLedger(t)
			jid, payload := pushOdd(s)
			victim := s.work(append(fast, "-q", "odd", "-c", "1", "--exec", book.exec("Odd", "-for", "1h"))...)
			require.Equal(t, oddArgs, string(book.awaitStart(jid, 1).Input))
			s.work(append(fast, "-q", "other", "-c", "1", "--exec", book.exec("Odd"))...)
			victim.kill()
			eventually(t, "the job to be back in its queue", func() bool { return len(s.list(s.keys.Queue("odd"))) == 1 })
			requireOnlyAdded(t, payload, s.list(s.keys.Queue("odd"))[0], "interrupted_count")
			s.work("-q", "odd", "-c", "1", "--exec", book.exec("Odd"))
			require.Equal(t, oddArgs, string(book.awaitEnd(jid).Input))
		})
	}, oracle.Allow(oracle.Retry, oracle.Retry))
}

// rubysArgs are oddArgs as Ruby writes them after reading them: the same values, digits and order in its
// spelling. (It has no integer -0.)
const rubysArgs = `[9007199254740993,12345678901234567890,1.0,1.0e+21,0,[],{},[[],{}],{"a":{"z":[]}},{"b":1,"a":2},"é<&>` + "\u2028" + `/","é<&>` + "\u2028" + `/"]`

// belay push stores the values that were typed, all digits of integers and the order of members included, as
// Ruby writes them.
func TestPushedValuesAreKeptInRubysSpelling(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		words := []string{"9007199254740993", "12345678901234567890", "1.0", "1e21", "-0", "[]", "{}", "[[],{}]",
			`{"a":{"z":[]}}`, `{"b":1,"a":2}`, `"é<&>\u2028/"`, `"é<&>` + "\u2028" + `/"`}
		_, errs, code := s.belay(append([]string{"push", "Odd", "-q", "odd"}, words...)...)
		require.Zero(t, code, errs)
		file := filepath.Join(t.TempDir(), "jobs")
		require.NoError(t, os.WriteFile(file, []byte(`{"class":"Odd",`+oddField+`,"args":`+oddArgs+`,"queue":"odd"}`), 0o600))
		_, errs, code = s.belay("push", "--file", file)
		require.Zero(t, code, errs)
		entries := s.list(s.keys.Queue("odd"))
		require.Len(t, entries, 2)
		for _, entry := range entries {
			require.Contains(t, entry, `"args":`+rubysArgs+`,`)
		}
		require.Contains(t, entries[0], oddField)
	})
}

// anew is a keyspace of its own, on the same server by the same client.
func (s *site) anew(t *testing.T) *site {
	t.Helper()
	fresh := newSite(t, s.server)
	fresh.client = s.client
	return fresh
}
