package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/job"
)

// received is how many bytes Redis has been sent.
func (s *site) received() int {
	s.t.Helper()
	_, rest, _ := strings.Cut(fmt.Sprint(s.do("INFO", "stats")), "total_net_input_bytes:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(s.t, err)
	return n
}

// An entry of thirty megabytes that Redis hands to an idle worker is not sent back: over a slow link it would
// never arrive in time, and the worker would do nothing else. It leaves a reason, is in no hand, and the worker
// goes on.
func TestAnOversizedEntryIsNotSentBack(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		book := newLedger(t)
		p := s.work("-c", "2", "--exec", book.exec("Any"))
		book.awaitEnd(s.push("Any", "default", jsonArgs(1, 0)))
		entry := rubyPayload("Large", "default", `["`+strings.Repeat("x", 30<<20)+`"]`, newJID())
		s.do("LPUSH", s.keys.Queue("default"), entry)
		before := s.received()
		eventually(t, "it to be dead", func() bool { return s.do("ZCARD", s.keys.Dead()) == int64(1) })
		book.awaitEnd(s.push("Any", "default", jsonArgs(2, 0)))
		require.Less(t, s.received()-before, 1<<20)
		text, reason := unread(t, s.set(s.keys.Dead())[0])
		require.Equal(t, entry, text)
		require.Equal(t, fmt.Sprintf("Belay::TooLarge: too large: %d bytes, limit %d", len(entry), job.DefaultPayloadLimit+job.PayloadSlack), reason)
		require.Empty(t, s.list(s.keys.Working("default", p.identities()[0])))
		eventually(t, "all to be counted", func() bool { return s.text(s.keys.Processed()) == "3" && s.text(s.keys.Failed()) == "1" })
		waitTerm(t, p)
	})
}

// A unique job that dies for its size frees its lock: the next one is accepted.
func TestAnOversizedJobFreesItsLock(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		push := func() (string, int) {
			out, errs, status := s.belay("push", "Large", `["`+strings.Repeat("x", 100_000)+`"]`, "--unique", "until_executed")
			return out + errs, status
		}
		output, status := push()
		require.Zero(t, status, output)
		output, _ = push()
		require.Contains(t, output, "duplicate")
		s.work("-c", "1", "--payload-limit", "1000", "--exec", "Large=true")
		eventually(t, "it to be dead", func() bool { return s.do("ZCARD", s.keys.Dead()) == int64(1) })
		require.Equal(t, int64(0), s.do("ZCARD", s.keys.Unique()))
		output, status = push()
		require.Zero(t, status, output)
		require.NotContains(t, output, "duplicate")
	}, oracle.Largest(1000+job.PayloadSlack))
}

// What dies unread is on Ruby's page with its reason, and does not break it; neither Ruby's retry nor Belay's
// has it lost.
func TestWhatDiesUnreadIsOnRubysPage(t *testing.T) {
	t.Parallel()
	eachClientWithRuby(t, func(t *testing.T, s *site, ruby *rubySide) {
		book := newLedger(t)
		bad := []string{"null", "42", "[1,2]", `"text"`, "{", "", "\x00\xff\x80", `{"class":"C","jid":"a","args":{}}`}
		large := rubyPayload("Large", "default", `["`+strings.Repeat("x", 1_500_000)+`"]`, newJID())
		for _, entry := range append(bad, large, "["+strings.Repeat("1,", 700_000)+"1]") {
			s.do("LPUSH", s.keys.Queue("default"), entry)
		}
		s.work("-c", "2", "--exec", book.exec("Any"))
		eventually(t, "all to be dead", func() bool { return s.do("ZCARD", s.keys.Dead()) == int64(len(bad)+2) })
		var page struct {
			Status int
			HTML   string
		}
		ruby.ask(t, &page, "page", "/morgue")
		require.Equal(t, 200, page.Status)
		require.Equal(t, len(bad), strings.Count(page.HTML, "Belay::Unreadable: unreadable job: "), page.HTML)
		require.Equal(t, 2, strings.Count(page.HTML, "Belay::TooLarge: too large: "))

		out, errs, _ := s.belay("dead")
		require.Equal(t, 2, strings.Count(out, "too large: "), out+errs)
		out, errs, status := s.belay("dead", "retry", "--all")
		require.Equal(t, 1, status, out+errs)
		require.Contains(t, out, "0 retried")
		require.Contains(t, errs, "too large: ")
		require.Contains(t, errs, "no worker could run it")

		// Ruby sends all of them round, and they come back as they were.
		for jid := range ruby.entries(t, "dead") {
			ruby.ask(t, nil, "retry", "dead", jid)
		}
		eventually(t, "all to be dead again", func() bool { return s.do("ZCARD", s.keys.Dead()) == int64(len(bad)+2) })
		texts := make(map[string]bool)
		for _, entry := range s.set(s.keys.Dead()) {
			text, _ := unread(t, entry)
			texts[text] = true
		}
		for _, entry := range bad {
			require.True(t, texts[entry], "%q", entry)
		}
		require.Empty(t, book.starts(""))
	})
}
