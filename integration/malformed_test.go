package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/job"
)

// malformed are entries that no worker can run, whichever program wrote them.
func malformed() map[string]string {
	nested := func(depth int) string { // the payload's own object is the first level
		return fmt.Sprintf(`{"class":"Deep","jid":"d%d","args":%s%s}`, depth, strings.Repeat("[", depth-1), strings.Repeat("]", depth-1))
	}
	return map[string]string{
		"an open brace":       "{",
		"an array":            "[]",
		"null":                "null",
		"nothing at all":      "",
		"no valid UTF-8":      "{\"class\":\"C\",\"jid\":\"u\",\"args\":[\"\xff\xfe\"]}",
		"bytes":               "\x00\xff\x80",
		"too deep":            nested(job.MaxDepth + 1),
		"far too deep":        nested(10*job.MaxDepth + 1),
		"five megabytes":      `{"class":"Large","jid":"l","args":["` + strings.Repeat("x", 5<<20) + `"]}`,
		"no class":            `{"jid":"n","args":[]}`,
		"args of an odd kind": `{"class":"C","jid":"a","args":{}}`,
	}
}

// unread is the text of an entry of the dead set as it was before it died, and what the entry says it died of.
func unread(t *testing.T, entry string) (text, reason string) {
	t.Helper()
	parsed, err := job.Parse(entry)
	require.NoError(t, err, "%.200q", entry)
	class, _ := parsed.Text("error_class")
	message, _ := parsed.Text("error_message")
	require.NotEmpty(t, message, "%.200q", entry)
	text, kept := parsed.Kept()
	if !kept {
		require.Equal(t, job.TooLargeClass, class)
		_, rest, _ := strings.Cut(entry, `"failed_at":`)
		_, rest, _ = strings.Cut(rest, ",")
		text = "{" + rest
	}
	return text, class + ": " + message
}

// What cannot be read is in the dead set with all its bytes and a reason, and holds up nothing: jobs behind it
// run.
func TestMalformedEntriesDieWithAReason(t *testing.T) {
	t.Parallel()
	bad := malformed()
	var entries []string
	for _, entry := range bad {
		entries = append(entries, entry)
	}
	// requireDead holds that the dead set is exactly the malformed entries, and that so many runs were counted,
	// failed of them failed.
	requireDead := func(t *testing.T, s *site, good, failed int) {
		t.Helper()
		eventually(t, "all to die", func() bool { return s.do("ZCARD", s.keys.Dead()) == int64(len(bad)) })
		dead := make(map[string]bool)
		for _, entry := range s.set(s.keys.Dead()) {
			text, _ := unread(t, entry)
			dead[text] = true
		}
		for name, entry := range bad {
			require.True(t, dead[entry], "%s is not in the dead set as it was", name)
		}
		eventually(t, "the good jobs to be counted", func() bool { return s.text(s.keys.Processed()) == fmt.Sprint(good+failed) })
		require.Equal(t, fmt.Sprint(failed), s.text(s.keys.Failed()))
		require.Empty(t, s.set(s.keys.Retry()))
		require.Empty(t, s.list(s.keys.Queue("odd")))
	}
	eachClient(t, func(t *testing.T, s *site) {
		t.Run("at the head of a queue", func(t *testing.T) {
			s, book := s.anew(t), newLedger(t)
			for _, entry := range entries {
				s.do("LPUSH", s.keys.Queue("odd"), entry)
			}
			jid, _ := pushOdd(s)
			p := s.work("-q", "odd", "-c", "2", "--exec", book.exec("*"))
			book.awaitEnd(jid)
			requireDead(t, s, 1, len(bad))
			require.Len(t, book.starts(""), 1)
			waitTerm(t, p)
		})
		t.Run("arriving at an idle worker", func(t *testing.T) {
			s, book := s.anew(t), newLedger(t)
			p := s.work("-q", "odd", "-c", "2", "--exec", book.exec("*"))
			for n, entry := range entries {
				// A good job first, so that the worker is known to have nothing else left to take.
				jid, _ := pushOdd(s)
				book.awaitEnd(jid)
				s.do("LPUSH", s.keys.Queue("odd"), entry)
				eventually(t, "it to die", func() bool { return s.do("ZCARD", s.keys.Dead()) == int64(n+1) })
			}
			requireDead(t, s, len(entries), len(bad))
			waitTerm(t, p)
		})
		for name, set := range map[string]func(s *site) string{
			"due in the schedule":  func(s *site) string { return s.keys.Schedule() },
			"due in the retry set": func(s *site) string { return s.keys.Retry() },
		} {
			t.Run(name, func(t *testing.T) {
				s, book := s.anew(t), newLedger(t)
				for n, entry := range entries {
					s.do("ZADD", set(s), fmt.Sprint(1_000_000_000+n), entry)
				}
				jid := newJID()
				s.do("ZADD", set(s), "1000001000", oddPayload(jid, oddArgs)) // due after all of them
				s.work("-q", "odd", "-c", "2", "--exec", book.exec("*"))
				book.awaitEnd(jid)
				requireDead(t, s, 1, len(bad))
				require.Empty(t, s.set(s.keys.Schedule()))
			})
		}
		t.Run("in the hands of a dead process", func(t *testing.T) {
			s, book := s.anew(t), newLedger(t)
			jid, payload := pushOdd(s)
			victim := s.work(append(fast, "-q", "odd", "-c", "1", "--exec", book.exec("*", "-for", "1h"))...)
			book.awaitStart(jid, 1)
			working := s.keys.Working("odd", victim.identities()[0])
			victim.kill()
			for _, entry := range entries {
				s.do("LPUSH", working, entry)
				s.do("RPUSH", working, "again:"+entry) // on either side of what is good
			}
			s.work(append(fast, "-q", "other", "-c", "1", "--exec", book.exec("*"))...)
			eventually(t, "the good job to be back", func() bool { return len(s.list(s.keys.Queue("odd"))) == 1 })
			requireOnlyAdded(t, payload, s.list(s.keys.Queue("odd"))[0], "interrupted_count")
			eventually(t, "all to die", func() bool { return s.do("ZCARD", s.keys.Dead()) == int64(2*len(bad)) })
			for _, entry := range s.set(s.keys.Dead()) {
				if text, _ := unread(t, entry); strings.HasPrefix(text, "again:") {
					s.do("ZREM", s.keys.Dead(), entry)
				}
			}
			require.Empty(t, s.list(working))
			s.work("-q", "odd", "-c", "2", "--exec", book.exec("*"))
			book.awaitEnd(jid)
			requireDead(t, s, 1, 2*len(bad))
		})
	}, oracle.Allow(oracle.Nowhere, oracle.Retry), oracle.Allow(oracle.Nowhere, oracle.Working), oracle.Allow(oracle.Dead, oracle.Nowhere))
}
