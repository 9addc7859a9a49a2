package main

import (
	"encoding/json"
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
