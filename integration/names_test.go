package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// oddNames are names of queues that a parser, glob or key scheme would stumble over.
var oddNames = []string{
	"a:b", "a_b", "{x}", "a}b{", "*", "[q]", "q?", "working:queue:x:h:1:ab", "h:1:deadbeef", "é", "日本", spacedName,
	strings.Repeat("n", 200), ".", "..", "%2F",
}

// spacedName is a name that Ruby allows, and that a command line would take for two.
const spacedName = "with space"

// Any text is a good name of a queue: its jobs are pushed, run, recovered from a killed worker and run again,
// each in its own queue.
func TestAnyNameIsAQueue(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		book := newLedger(t)
		flags := append([]string{"-c", fmt.Sprint(len(oddNames))}, fast...)
		for _, name := range oddNames {
			if name != spacedName {
				flags = append(flags, "-q", name)
			}
		}
		// On the command line two names in one pair of quotes are refused; a file says what it means.
		file := filepath.Join(t.TempDir(), "belay.yml")
		require.NoError(t, os.WriteFile(file, []byte("capsules: {spaced: {queues: ['"+spacedName+"']}}\n"), 0o600))
		flags = append(flags, "--config", file)
		queueOf := make(map[string]string)
		for _, name := range oddNames {
			out, errs, code := s.belay("push", "Job", fmt.Sprintf("%q", name), "-q", name)
			require.Zero(t, code, errs)
			queueOf[strings.TrimSpace(out)] = name
		}
		require.Len(t, queueOf, len(oddNames))
		require.Empty(t, s.status().Processes)

		victim := s.work(append(flags, "--exec", book.exec("Job", "-for", "1h"))...)
		for jid, name := range queueOf {
			require.Equal(t, name, book.awaitStart(jid, 1).Queue)
		}
		s.work(append(flags, "--exec", book.exec("Job"))...)
		victim.kill()
		for jid, name := range queueOf {
			again := book.awaitStart(jid, 2)
			require.Equal(t, name, again.Queue, "it was recovered into another queue")
			require.Equal(t, fmt.Sprintf("[%q]", name), string(again.Input))
		}
		eventually(t, "all jobs to be done", func() bool { return s.text(s.keys.Processed()) == fmt.Sprint(len(oddNames)) })
		require.Len(t, book.starts(""), 2*len(oddNames))
		require.ElementsMatch(t, oddNames, texts(s.do("SMEMBERS", s.keys.Queues())))
		require.Empty(t, s.text(s.keys.Failed()))
		require.Empty(t, s.set(s.keys.Dead()))
		require.Empty(t, texts(s.do("KEYS", s.prefix+":queue:*")), "jobs were left in a queue")
		require.Empty(t, texts(s.do("KEYS", s.prefix+":belay:working:*")), "jobs were left in hand")
	})
}

// A worker on any host dies without loss, and Ruby can read its identity.
func TestAnyHostMayDie(t *testing.T) {
	t.Parallel()
	s, book := ordinarySite(t), newLedger(t)
	s.work(append(fast, "--name", "survivor", "-q", "other", "-q", "default", "-c", "1", "--exec", book.exec("Job"))...)
	for _, name := range []string{"a_b", "a:b", "fe80::1", "A.B-c", "with space", "é"} {
		t.Run(name, func(t *testing.T) {
			jid := s.push("Lonely", "lonely", `["x"]`) // only the victim takes it
			victim := s.work(append(fast, "--name", name, "-q", "lonely", "-c", "1", "--exec", book.exec("Lonely", "-for", "1h"))...)
			book.awaitStart(jid, 1)
			identity := victim.identities()[0]
			require.Equal(t, 2, strings.Count(identity, ":"), "Ruby splits %q into host, pid and nonce", identity)
			require.Contains(t, identity, fmt.Sprintf(":%d:", victim.pid))
			victim.kill()
			eventually(t, "the job to be back in its queue", func() bool { return len(s.list(s.keys.Queue("lonely"))) == 1 })
			next := s.work(append(fast, "--name", name, "-q", "lonely", "-c", "1", "--exec", book.exec("Lonely"))...)
			require.Equal(t, "lonely", book.awaitEnd(jid).Queue)
			waitTerm(t, next)
			require.Len(t, book.starts(jid), 2)
		})
	}
}

// A name that cannot be right is refused where it is first said, in one line that tells what is wrong.
func TestBadNamesAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, drivertest.Redis(t))
	for _, bad := range []struct{ name, says string }{
		{"", "empty"},
		{"two\nlines", "control character"},
		{"bell\a", "control character"},
		{strings.Repeat("n", 256), "256 bytes"},
		{"\xff", "UTF-8"},
	} {
		t.Run(fmt.Sprintf("%.10q", bad.name), func(t *testing.T) {
			for _, words := range [][]string{
				{"push", "Job", "-q", bad.name},
				{"push", bad.name},
				{"work", "-q", bad.name, "--exec", "Job=true"},
				{"work", "-q", "good", "-q", bad.name + ",3", "--exec", "Job=true"},
			} {
				out, errs, code := s.belay(words...)
				require.Equal(t, 2, code, "%q: a wrong command line", words)
				require.Empty(t, out)
				require.Contains(t, errs, bad.says, "%q", words)
				require.Equal(t, 1, strings.Count(errs, "\n"), "%q: one line: %s", words, errs)
			}
		})
	}
	t.Run("in a file of jobs", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "jobs")
		require.NoError(t, os.WriteFile(file, []byte(`{"class":"Job","queue":""}
{"class":"Job","queue":"good"}
{"class":"Job","queue":"a\u0000b"}
`), 0o600))
		out, errs, code := s.belay("push", "--file", file)
		require.Equal(t, 1, code)
		require.Contains(t, errs, "line 1: refused: the name of the queue is empty")
		require.Contains(t, errs, "line 3: refused: the name of the queue")
		require.Equal(t, 1, strings.Count(out, "\n"), "the good one is pushed")
	})
	require.Equal(t, []string{"good"}, texts(s.do("SMEMBERS", s.keys.Queues())))
}
