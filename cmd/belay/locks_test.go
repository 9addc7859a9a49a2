package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
)

func TestPushUnique(t *testing.T) {
	t.Parallel()
	t.Run("a_duplicate_prints_the_holder_and_is_exit_status_3", func(t *testing.T) {
		t.Parallel()
		for _, client := range []string{"go-redis", "rueidis"} {
			h := newHouse(t)
			h.consumer("default")
			push := func(more ...string) said {
				return h.invoke("", append([]string{"push", "A", "42", "--unique", "until_executed", "--client", client}, more...)...)
			}
			first := push("--jid", "one")
			require.Equal(t, said{out: "one\n"}, first)
			second := push()
			require.Equal(t, exitDuplicate, second.code)
			require.Equal(t, "one\n", second.out)
			require.Equal(t, "belay push: a duplicate of one: nothing was pushed\n", second.errs)
			third := push("--json", "--jid", "three")
			require.Equal(t, exitDuplicate, third.code)
			require.JSONEq(t, `{"jid":"three","queue":"default","status":"duplicate","holder":"one"}`, third.out)
			require.Equal(t, said{out: "one\n"}, push("--jid", "one"), "the same job is there")
			require.Zero(t, push("--in", "1h").code, "one for later leaves the lock alone")
			require.Equal(t, exitDuplicate, push("--in", "1h", "--including-scheduled").code)
			require.Equal(t, int64(1), h.do("LLEN", h.key("queue:default")))
			require.Contains(t, h.invoke("", "status", "--json").out, `"duplicates":3`)
		}
	})
	t.Run("flags_are_stored_in_the_job", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		require.Zero(t, h.invoke("", "push", "A", "--unique", "until_executed", "--unique-ttl", "90s", "--reschedule-once", "--including-scheduled").code)
		require.Regexp(t, `"belay_unique":\{"digest":"[0-9a-f]{32}","until":"until_executed","ttl_ms":90000,"again":true,"scheduled":true\}`,
			h.payloads("LRANGE", h.key("queue:default"), "0", "-1")[0])
	})
	t.Run("without_a_value_it_means_until_executing_in_any_position", func(t *testing.T) {
		t.Parallel()
		for _, words := range [][]string{
			{"A", "42", "--unique"}, {"--unique", "A", "42"}, {"A", "--unique", "42"}, {"A", "--unique", "--unique-ttl", "6h", "42"},
			{"A", "42", "--unique", "until_executing"}, {"--unique", "until_executing", "A", "42"}, {"--unique=until_executing", "A", "42"},
		} {
			h := newHouse(t)
			require.Zero(t, h.invoke("", append([]string{"push"}, words...)...).code, words)
			payloads := h.payloads("LRANGE", h.key("queue:default"), "0", "-1")
			require.Len(t, payloads, 1)
			require.Contains(t, payloads[0], `"until":"until_executing"`)
			require.Contains(t, payloads[0], `"args":[42],"class":"A"`)
		}
		h := newHouse(t)
		require.Zero(t, h.invoke("", "push", "A", "--unique", "-7").code)
		require.Contains(t, h.payloads("LRANGE", h.key("queue:default"), "0", "-1")[0], `"args":[-7]`)
	})
	t.Run("with_a_file_flags_apply_to_all_lines_and_duplicates_are_counted", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.consumer("default")
		file := `{"class":"A","args":[1],"jid":"a"}
{"class":"A","args":[1.0],"jid":"b"}
{"class":"B","args":[1],"jid":"c"}
{"class":"A","args":[1],"jid":"d"}`
		answer := h.invoke(file, "push", "--file", "-", "--unique", "until_executing")
		require.Equal(t, exitDuplicate, answer.code)
		require.Equal(t, "a\nc\n", answer.out)
		require.Equal(t, "line 2: a duplicate of a\nline 4: a duplicate of a\n2 queued, 2 duplicates, 0 refused, 0 unknown, 0 not pushed\n"+
			"belay push: 2 of 4 lines were duplicates\n", answer.errs)
		answer = h.invoke(file+"\n[]\n", "push", "--file", "-", "--unique", "until_executing", "--json")
		require.Equal(t, exitFailure, answer.code, "what went wrong comes first")
		require.Contains(t, answer.out, `{"jid":"b","queue":"default","status":"duplicate","holder":"a","line":2}`)
		require.Contains(t, answer.errs, "1 of 5 lines were refused")
		answer = h.invoke(`{"class":"E","args":[1]}`, "push", "--file", "-", "--unique", "until_executing")
		require.Zero(t, answer.code)
		require.Equal(t, "1 queued, 0 duplicates, 0 refused, 0 unknown, 0 not pushed\n", answer.errs)
		answer = h.invoke(`{"class":"A","belay_unique":{"digest":"x"}}`, "push", "--file", "-")
		require.Contains(t, answer.errs, `line 1: refused: the field "belay_unique" cannot be set like this; use Unique`)
	})
}

func TestLocks(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			belay := func(args ...string) said { return h.invoke("", append(args, "--client", client)...) }
			require.Equal(t, said{out: "0 of 0\n"}, belay("locks"))
			require.Zero(t, belay("push", "Report", "--jid", "one", "--unique", "until_executed").code)
			require.Zero(t, belay("push", "Mail", "--jid", "two", "--unique", "until_executing", "--unique-ttl", "1h").code)

			answer := belay("locks")
			require.Regexp(t, `^DIGEST +CLASS +JID +AGE +TTL +STATE\n[0-9a-f]{32} +Mail +two +\S+ +(1h0m0s|59m5\ds)\n[0-9a-f]{32} +Report +one +\S+ +(6h0m0s|5h59m5\ds)\n2 of 2\n$`, answer.out)
			require.Regexp(t, `one .*\n1 of 2\n$`, belay("locks", "--class", "Report").out)
			require.Regexp(t, `two .*\n1 of 2\n$`, belay("locks", "--jid", "two").out)
			require.Regexp(t, `one .*\n1 of 2\n$`, belay("locks", "--limit", "1", "--offset", "1").out)

			var lock inspect.UniqueLock
			require.NoError(t, json.Unmarshal([]byte(belay("locks", "--jid", "one", "--json").out), &lock))
			require.Equal(t, "Report", lock.Class)

			h.do("SETRANGE", h.key("belay:lock:"+lock.Digest), "0", "d")
			require.Contains(t, belay("locks", "--jid", "one").out, " dirty\n")
			answer = belay("locks", "release", lock.Digest, "nosuch")
			require.Equal(t, exitAbsent, answer.code)
			require.Regexp(t, `^`+lock.Digest+`: released; it was held by one \(Report\) for \S+\n$`, answer.out)
			require.Contains(t, answer.errs, "it was dirty: a duplicate was refused while one ran, and no rerun follows; push it again\n")
			require.Contains(t, answer.errs, "not there, or not any more: nosuch\n")
			require.Equal(t, exitAbsent, belay("locks", "release", lock.Digest).code)
			h.do("LPUSH", h.key("belay:lock:"+lock.Digest), "x")
			require.Equal(t, said{out: lock.Digest + ": released; its value named no job\n"}, belay("locks", "release", lock.Digest))
			require.Zero(t, belay("push", "Report", "--unique", "until_executed").code)
		})
	}
}

func TestActsOnUniqueJobs(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	push := func(jid string) {
		require.Zero(t, h.invoke("", "push", "A", "--unique", "until_executed", "--jid", jid).code)
	}
	push("1")
	require.Equal(t, said{0, "1 deleted\n", ""}, h.invoke("", "queues", "clear", "default", "--yes"))
	push("2")
	h.kill(h.payloads("LRANGE", h.key("queue:default"), "0", "-1")[0])
	require.Zero(t, h.invoke("", "queues", "delete", "default", "2").code)
	push("3")
	answer := h.invoke("", "dead", "retry", "2")
	require.Equal(t, exitFailure, answer.code)
	require.Equal(t, "0 retried\n", answer.out)
	require.Equal(t, "2: it is a duplicate of 3, which has the lock\nbelay dead retry: 1 could not be moved and are where they were\n", answer.errs)
	require.Zero(t, h.invoke("", "queues", "delete", "default", "3").code)
	require.Equal(t, said{0, "1 retried\n", ""}, h.invoke("", "dead", "retry", "2"))
	require.Equal(t, exitDuplicate, h.invoke("", "push", "A", "--unique", "until_executed").code)
}

func TestPushWithAKey(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.consumer("default")
			belay := func(in string, args ...string) said { return h.invoke(in, append(args, "--client", client)...) }
			require.Equal(t, said{out: "one\n"}, belay("", "push", "A", "1", "--key", "evt_1", "--jid", "one"))
			h.do("DEL", h.key("queue:default"))
			again := belay("", "push", "B", "2", "--key", "evt_1", "--in", "1h")
			require.Equal(t, said{exitDuplicate, "one\n", "belay push: a duplicate of one: nothing was pushed\n"}, again)

			answer := belay(`{"class":"A","jid":"two","belay_key":"evt_2"}
{"class":"A","jid":"three","belay_key":"evt_2"}
{"class":"A","jid":"four"}
{"class":"A","jid":"five","belay_key":"evt_1"}
{"class":"A","belay_key":""}
{"class":"A","belay_key":5}
{"class":"A","belay_key":"\ud800"}
`, "push", "--file", "-", "--key-for", "72h")
			require.Equal(t, exitFailure, answer.code)
			require.Equal(t, "two\nfour\n", answer.out)
			require.Contains(t, answer.errs, "line 2: a duplicate of two\nline 4: a duplicate of one\n")
			require.Contains(t, answer.errs, "line 5: refused: the key is empty")
			require.Contains(t, answer.errs, `line 6: refused: the field "belay_key" has the wrong type`)
			require.Contains(t, answer.errs, `line 7: refused: the field "belay_key" is not valid UTF-8`)
			for _, payload := range h.payloads("LRANGE", h.key("queue:default"), "0", "-1") {
				require.NotContains(t, payload, "belay_key")
				require.NotContains(t, payload, "belay_unique")
			}

			require.Regexp(t, `\n[0-9a-f]{32} +A +one +\S+ +(24h0m0s|23h59m5\ds) +kept\n`, belay("", "locks").out)
			found := belay("", "locks", "find", "--key", "evt_2")
			require.Regexp(t, `\n[0-9a-f]{32} +A +two +\S+ +(72h0m0s|71h59m5\ds) +kept\n$`, found.out)
			require.Equal(t, exitAbsent, belay("", "locks", "find", "--key", "evt_3").code)
			var lock inspect.UniqueLock
			require.NoError(t, json.Unmarshal([]byte(belay("", "locks", "find", "--key", "evt_2", "--json").out), &lock))
			require.True(t, lock.Kept)
			require.Zero(t, belay("", "locks", "release", lock.Digest).code)
			require.Zero(t, belay("", "push", "A", "--key", "evt_2").code)
		})
	}
}

func TestUniqueUntilExpiredOutlivesTheJob(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	push := []string{"push", "A", "1", "--unique", "until_expired", "--unique-ttl", "15m", "--jid"}
	require.Zero(t, h.invoke("", append(push, "one")...).code)
	require.Equal(t, said{0, "1 deleted\n", ""}, h.invoke("", "queues", "clear", "default", "--yes"))
	require.Equal(t, exitDuplicate, h.invoke("", append(push, "two")...).code)
	require.Regexp(t, `\n[0-9a-f]{32} +A +one +\S+ +(15m0s|14m5\ds) +kept\n$`, h.invoke("", "locks", "find", "A", "1").out)
}

// A lock's names are foreign text, like everything in Redis.
func TestLocksCannotControlTheTerminal(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.do("SET", h.key("belay:lock:evil\x1b[31m"), "-j\x1b[2J\nClass\x1b]0;t\a\n1767323045000")
	h.do("ZADD", h.key("belay:unique"), "9e15", "evil\x1b[31m")
	for _, args := range [][]string{{"locks"}, {"locks", "--json"}, {"locks", "release", "evil\x1b[31m"}} {
		answer := h.invoke("", args...)
		require.Zero(t, answer.code, answer.errs)
		require.NotContains(t, answer.out+answer.errs, "\x1b")
		require.Contains(t, answer.out, "evil")
	}
}

// What the help of locks promises of --json is what there is.
