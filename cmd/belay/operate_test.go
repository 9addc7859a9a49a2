package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
)

func TestFindSearches(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, args := range []string{"1", "2", "3"} {
		require.Zero(t, h.invoke("", "push", "A", args, `"Some Text"`, "-q", "mail", "--jid", "jid"+args).code)
	}
	h.do("ZADD", h.key("dead"), "1700000000", deadJob("B", "died"))
	search := func(args ...string) (jids []string, errs string) {
		answer := h.invoke("", append([]string{"find", "--json"}, args...)...)
		require.Zero(t, answer.code, answer.errs)
		for line := range strings.Lines(answer.out) {
			var found inspect.Found
			require.NoError(t, json.Unmarshal([]byte(line), &found))
			jids = append(jids, found.JID)
		}
		return jids, answer.errs
	}
	all := []string{"jid1", "jid2", "jid3"}
	for _, c := range []struct{ flags, want string }{
		{"--class A", "jid1 jid2 jid3"}, {"--text some", "jid1 jid2 jid3"}, {"--class B", "died"}, {"--class A --text nothing", ""},
		{"--in dead", "died"}, {"--in queue,dead", "jid1 jid2 jid3 died"}, {"--queue mail --in queue", "jid1 jid2 jid3"},
	} {
		jids, errs := search(strings.Fields(c.flags)...)
		require.Equal(t, c.want, strings.Join(jids, " "), c.flags)
		require.Empty(t, errs)
	}
	first, errs := search("--class", "A", "--limit", "2")
	require.Equal(t, all[:2], first)
	_, cursor, ok := strings.Cut(strings.TrimSpace(errs), "--cursor ")
	require.True(t, ok, errs)
	rest, _ := search("--class", "A", "--cursor", cursor)
	require.Equal(t, all[2:], rest)

	late := h.invoke("", "find", "--class", "A", "--text", "nothing", "--timeout", "1ns")
	require.Equal(t, exitUnseen, late.code, "a script must not take it for none")
	require.Regexp(t, `^\d+ entries were read; to continue: --cursor \S+\nbelay find: nothing was found, and the search was incomplete\n$`, late.errs)
	require.Zero(t, h.invoke("", "find", "--class", "A", "--in", "queue", "--timeout", "1ns").code, "jobs were found")

	table := h.invoke("", "find", "--class", "B")
	require.Regexp(t, `(?m)^JID +CLASS +STATE`, table.out)
	require.Regexp(t, `(?m)^died +B +dead `, table.out)
	for _, words := range []string{"find jid --class A", "find --in nowhere", "find --class A --limit 0", "find --limit 5"} {
		require.Equal(t, exitUsage, h.invoke("", strings.Fields(words)...).code, words)
	}
	require.Equal(t, exitFailure, h.invoke("", "find", "--cursor", "?").code)
	require.Equal(t, said{0, "3 moved\n", ""}, h.invoke("", "queues", "move", "mail", "other", "--text", "some TEXT"))
}

func TestReschedule(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, set := range []string{"retries", "scheduled"} {
		key := h.key(map[string]string{"retries": "retry", "scheduled": "schedule"}[set])
		h.do("ZADD", key, "1700000000", deadJob("A", "1"), "1700000001", deadJob("A", "2"))
		at := "2030-01-02T03:04:05Z"
		require.Equal(t, said{0, "1 rescheduled\n", ""}, h.invoke("", set, "reschedule", "1", "--at", at))
		require.Equal(t, "1893553445", h.do("ZSCORE", key, deadJob("A", "1")))
		require.Equal(t, said{0, "2 rescheduled\n", ""}, h.invoke("", set, "reschedule", "--all", "--in", "1h"))
		in := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
		require.Equal(t, int64(2), h.do("ZCOUNT", key, in(50*time.Minute), in(70*time.Minute)))
		require.Equal(t, exitAbsent, h.invoke("", set, "reschedule", "nowhere", "--in", "1h").code)
		for _, words := range []string{"1", "1 --in 1h --at " + at, "1 --at soon", "--in 1h"} {
			require.Equal(t, exitUsage, h.invoke("", append([]string{set, "reschedule"}, strings.Fields(words)...)...).code, words)
		}
	}
}

func TestStatusHistoryAndReset(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	today := time.Now().UTC().Format(time.DateOnly)
	h.do("SET", h.key("stat:processed"), "9")
	h.do("SET", h.key("stat:processed:"+today), "7")
	h.do("SET", h.key("stat:failed:"+today), "2")
	history := h.invoke("", "status", "--history", "2")
	require.Zero(t, history.code, history.errs)
	require.Regexp(t, `(?m)^`+today+` +7 +2$`, history.out)
	lines := strings.Split(strings.TrimSpace(h.invoke("", "status", "--history", "2", "--json").out), "\n")
	require.Len(t, lines, 2)
	require.JSONEq(t, `{"date":"`+today+`","processed":7,"failed":2}`, lines[1])
	for _, words := range []string{"status --history 0", "status --history 2 --watch", "status reset all --yes", "status reset"} {
		require.Equal(t, exitUsage, h.invoke("", strings.Fields(words)...).code, words)
	}
	require.Zero(t, h.invoke("", "status", "reset", "--yes").code)
	require.Equal(t, "0", h.do("GET", h.key("stat:processed")))
	require.Equal(t, "7", h.do("GET", h.key("stat:processed:"+today)))
}

func TestLocksFind(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	require.Zero(t, h.invoke("", "push", "Reindex", "42", "--unique", "--jid", "holder").code)
	lock := h.invoke("", "locks", "find", "Reindex", "42.0", "--json")
	require.Zero(t, lock.code, lock.errs)
	require.Contains(t, lock.out, `"jid":"holder"`)
	require.Contains(t, h.invoke("", "locks", "find", "Reindex", "42").out, "holder")
	require.Equal(t, exitAbsent, h.invoke("", "locks", "find", "Reindex", "43").code)
	require.Equal(t, exitUsage, h.invoke("", "locks", "find").code)
	require.Equal(t, exitUsage, h.invoke("", "locks", "find", "Reindex", "nonsense").code)
}
