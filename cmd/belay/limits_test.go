package main

import (
	"crypto/sha1" //nolint:gosec // the name that scripts have for a job
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
)

// wait puts jobs of a queue behind those that wait at a gate already.
func (h *house) wait(gate, queue string, payloads ...string) {
	h.t.Helper()
	for _, payload := range payloads {
		h.do("LPUSH", h.key("belay:waiting:"+gate), queue+"\n"+payload)
	}
	h.do("ZADD", h.key("belay:waiting"), "1700000000", gate)
}

func TestJobsThatWaitForLimits(t *testing.T) {
	t.Parallel()
	t.Run("are_listed_and_found", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.wait("webhooks:acme", "mail", deadJob("A", "1"), deadJob("A", "2"))
		h.wait("webhooks:other", "other", deadJob("B", "3"))
		h.do("SADD", h.key("queues"), "mail")
		list := h.invoke("", "list", "waiting")
		require.Zero(t, list.code, list.errs)
		require.Regexp(t, `(?m)^.* 2 +A +mail .*at gate webhooks:acme: Boom: went wrong`, list.out)
		require.Contains(t, list.out, "3 of 3\n")
		require.Equal(t, "1\n2\n", jidsOf(t, h.invoke("", "list", "waiting", "-q", "mail", "--json").out))
		require.Equal(t, "3\n", jidsOf(t, h.invoke("", "list", "waiting", "--class", "B", "--json").out))
		require.Contains(t, h.invoke("", "list", "waiting", "--group").out, "3 jobs\n")
		found := h.invoke("", "find", "2")
		require.Contains(t, found.out, "waiting at gate webhooks:acme, number 2 in line, of queue mail")
		var answer inspect.Found
		require.NoError(t, json.Unmarshal([]byte(h.invoke("", "find", "2", "--json").out), &answer))
		require.Equal(t, []any{inspect.PlaceWaiting, "webhooks:acme", 2}, []any{answer.Place, answer.Gate, answer.Line})
		require.Equal(t, "3\n", jidsOf(t, h.invoke("", "queues", "find", "other", "3", "--json").out))
		require.Regexp(t, `(?m)^3 +B +waiting +other`, h.invoke("", "find", "--in", "waiting").out)
		require.Equal(t, exitUsage, h.invoke("", "list", "waiting", "more").code)
		h.do("LPUSH", h.key("queue:mail"), deadJob("A", "admitted"))
		h.do("HSET", h.key("belay:admitted"), fmt.Sprintf("%x", sha1.Sum([]byte(deadJob("A", "admitted")))), //nolint:gosec // as above
			"1700000000000\nwebhooks:acme\nmail")
		require.Contains(t, h.invoke("", "find", "admitted").out, "in queue mail, admitted at gate webhooks:acme")
	})
	t.Run("are_covered_by_the_acts_on_their_queue", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.wait("webhooks:acme", "mail", deadJob("A", "1"), deadJob("A", "2"), deadJob("B", "3"))
		h.wait("webhooks:acme", "other", deadJob("A", "4"))
		h.do("LPUSH", h.key("queue:mail"), deadJob("A", "5"))
		require.Contains(t, h.invoke("", "queues", "clear", "mail", "--dry-run").out, "4 jobs match")
		require.Equal(t, exitAbsent, h.invoke("", "queues", "delete", "mail", "4").code, "it is a job of another queue")
		require.Equal(t, "1 deleted\n", h.invoke("", "queues", "delete", "mail", "1").out)
		require.Equal(t, "1 killed\n", h.invoke("", "queues", "kill", "mail", "--class", "B").out+h.invoke("", "queues", "kill", "mail", "--class", "B", "--yes").out)
		require.Equal(t, []string{deadJob("B", "3")}, h.payloads("ZRANGE", h.key("dead"), "0", "-1"))
		refused := h.invoke("", "queues", "clear", "mail")
		require.Contains(t, refused.errs, "those of its jobs that wait for limits")
		require.Equal(t, "2 moved\n", h.invoke("", "queues", "move", "mail", "mial").out)
		require.Equal(t, int64(2), h.do("LLEN", h.key("queue:mial")))
		require.Equal(t, "1 moved\n", h.invoke("", "move", "--from", "other", "--to", "mail").out)
		require.Equal(t, int64(0), h.do("EXISTS", h.key("belay:waiting"), h.key("belay:waiting:webhooks:acme")))
	})
	t.Run("are_cancelled_and_returned", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.wait("webhooks:acme", "mail", deadJob("A", "1"), deadJob("A", "2"))
		require.Contains(t, h.invoke("", "cancel", "1").out, "removed")
		returned := h.invoke("", "return", "--to-ruby")
		require.Contains(t, returned.out, "1 had been waiting for limits\n")
		require.Equal(t, []string{deadJob("A", "2")}, h.payloads("LRANGE", h.key("queue:mail"), "0", "-1"))
	})
}

// jidsOf returns the IDs of a list in JSON, a line for each.
func jidsOf(t *testing.T, lines string) (ids string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var entry inspect.Entry
		require.NoError(t, json.Unmarshal([]byte(line), &entry))
		ids += entry.ID + "\n"
	}
	return ids
}

func TestLimitsCommand(t *testing.T) {
	t.Parallel()
	t.Run("lists_sets_resets_and_removes", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		require.Equal(t, "0 limits\n", h.invoke("", "limits").out)
		require.Equal(t, said{out: "webhooks: concurrency 10, rate - (no program has registered it)\n"}, h.invoke("", "limits", "set", "webhooks", "--concurrency", "10"))
		require.Equal(t, said{out: "webhooks: concurrency 10, rate leaky:100/1m (no program has registered it)\n"}, h.invoke("", "limits", "set", "webhooks", "--rate", "leaky:100/1m"))
		h.wait("webhooks:acme", "mail", deadJob("A", "1"))
		require.Regexp(t, `(?m)^webhooks +10 +leaky:100/1m +operator +0 +0 +1 +1 +`, h.invoke("", "limits").out)
		require.Equal(t, said{out: "webhooks: concurrency 0, rate -\n"}, h.invoke("", "limits", "set", "webhooks", "--concurrency", "0", "--rate", "none"))
		for _, words := range []string{"set web-hook --concurrency 1 --dry-run", "set web-hook --concurrency 1"} {
			require.Contains(t, h.invoke("", append([]string{"limits"}, strings.Fields(words)...)...).out, "concurrency 1, rate - (no program has registered it; did you mean webhooks?)")
		}
		require.Zero(t, h.invoke("", "limits", "remove", "web-hook").code)
		for _, words := range []string{"set webhooks", "set webhooks --rate 100", "set web:hooks --concurrency 1", "set webhooks --concurrency -1", "set", "show", "reset", "remove", "more"} {
			require.Equal(t, exitUsage, h.invoke("", append([]string{"limits"}, strings.Fields(words)...)...).code, words)
		}
		require.Equal(t, said{out: "webhooks: reset\n"}, h.invoke("", "limits", "reset", "webhooks"))
		require.Regexp(t, `(?m)^1 limit$`, h.invoke("", "limits").out)
		require.Equal(t, said{exitAbsent, "", "belay limits reset: not there, or not any more: other: no program has registered such a limit, and no operator has set one\n"},
			h.invoke("", "limits", "reset", "other"))
		removed := h.invoke("", "limits", "remove", "webhooks", "other")
		require.Equal(t, []any{exitAbsent, "webhooks: removed\n"}, []any{removed.code, removed.out})
		require.Regexp(t, `(?m)^webhooks +- +- +- +0 +0 +1`, h.invoke("", "limits").out, "its job still waits")
		require.Contains(t, invoke("", slices.Concat([]string{"__complete"}, h.at(), []string{"limits", "show", "webh"})...).out, "webhooks\n")
	})
	t.Run("shows_gates_and_the_line", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.wait("webhooks:acme", "mail", deadJob("A", "1"), deadJob("A", "2"))
		h.wait("webhooks:\x1b[2J", "mail", deadJob("A", "3"))
		h.do("HSET", h.key("belay:gates"), "webhooks:acme\nr", "4", "webhooks:acme\na", "1")
		shown := h.invoke("", "limits", "show", "webhooks")
		require.Zero(t, shown.code, shown.errs)
		require.Regexp(t, `(?m)^webhooks:acme +4 +1 +2 +mail`, shown.out)
		require.NotContains(t, shown.out, "\x1b")
		require.NotContains(t, shown.out, "next to start")
		require.Regexp(t, `(?m)^- +2 +A +mail`, h.invoke("", "limits", "show", "webhooks", "--key", "acme").out)
		require.NotContains(t, h.invoke("", "limits", "show", "webhooks", "--key", "acme", "--mask", "A").out, "1.0")
		require.Equal(t, exitAbsent, h.invoke("", "limits", "show", "other").code)
		h.do("SADD", h.key("queues"), "mail")
		require.Regexp(t, `(?m)^mail +0 +\S+ +- +- +3 +no consumer`, h.invoke("", "queues").out)
	})
	t.Run("that_cannot_be_read_are_not_reported_as_right", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.do("SET", h.key("belay:gates"), "x")
		for _, words := range [][]string{{"limits", "check"}, {"limits", "check", "--json"}} {
			unread := h.invoke("", words...)
			require.Equal(t, exitFailure, unread.code, words)
			require.Regexp(t, `^belay limits check: not all counts could be compared: the counts of gates: WRONGTYPE`, unread.errs)
		}
	})
	t.Run("checks_and_repairs_counts", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		require.Equal(t, said{out: "0 gates compared, 0 are wrong\n"}, h.invoke("", "limits", "check"))
		h.do("HSET", h.key("belay:gates"), "webhooks:acme\nr", "4")
		wrong := h.invoke("", "limits", "check")
		require.Equal(t, exitFailure, wrong.code)
		require.Contains(t, wrong.out, "1 gate compared, 1 is wrong\n")
		require.Regexp(t, `(?m)^webhooks:acme +4 +0 +0 +0 +0 +no`, wrong.out)
		require.Equal(t, said{out: "webhooks:acme: 0 running (was 4), 0 admitted (was 0)\n"}, h.invoke("", "limits", "reset", "webhooks:acme"))
		require.Equal(t, said{out: "0 gates compared, 0 are wrong\n"}, h.invoke("", "limits", "check"))
	})
}
