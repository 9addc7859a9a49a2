package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// progress is the lines about how far a file has been pushed, which a slow machine prints.
var progress = regexp.MustCompile(`(?m)^\d+ queued, \d+/s, \d+ refused so far\n`)

// A misspelled queue is accepted like any other, and the push is what can say so.
func TestAPushToAQueueWithoutAConsumerPrintsAHint(t *testing.T) {
	t.Parallel()
	t.Run("once_on_standard_error_and_nothing_else_changes", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.consumer("default", "mail")
		require.Equal(t, said{out: "one\n"}, h.invoke("", "push", "A", "--jid", "one", "-q", "mail"))
		const hint = "no consumer for queue mial: its jobs wait until a worker takes from it\n"
		require.Equal(t, said{out: "two\n", errs: hint}, h.invoke("", "push", "A", "--jid", "two", "-q", "mial"))
		require.Equal(t, said{out: "three\n", errs: hint}, h.invoke("", "push", "A", "--jid", "three", "-q", "mial", "--in", "1h"))
		answer := h.invoke("", "push", "A", "--jid", "four", "-q", "mial", "--json")
		require.JSONEq(t, `{"jid":"four","queue":"mial","status":"queued"}`, answer.out)
		require.Equal(t, hint, answer.errs)
		require.Equal(t, int64(2), h.do("LLEN", h.key("queue:mial")))

		h.do("HSET", h.key("ruby:1"), "quiet", "true")
		require.Contains(t, h.invoke("", "push", "A", "-q", "mail").errs, "no consumer for queue mail", "a quiet one takes nothing")
		h.do("SADD", h.key("processes"), "ruby:2") // it does not say which queues it takes
		h.do("HSET", h.key("ruby:2"), "info", "{}", "quiet", "false")
		require.Empty(t, h.invoke("", "push", "A", "-q", "mial").errs)
	})
	t.Run("once_at_the_end_of_a_file_for_all_queues", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.consumer("default")
		var file strings.Builder
		for n := range 700 {
			_, _ = fmt.Fprintf(&file, `{"class":"A","args":[%d],"queue":"q%d"}`+"\n", n, n%7)
		}
		proxy := faultproxy.New(t, h.server.Addr())
		answer := invoke(file.String()+`{"class":"A"}`, "push", "--file", "-", "--redis", proxy.URL(), "--prefix", h.prefix)
		require.Zero(t, answer.code, answer.errs)
		require.Equal(t, 701, strings.Count(answer.out, "\n"))
		require.Equal(t, "no consumer for queue q0, q1, q2, q3, q4 and 2 more: its jobs wait until a worker takes from it\n"+
			"701 queued, 0 refused, 0 unknown, 0 not pushed\n", progress.ReplaceAllString(answer.errs, ""))
		require.Equal(t, 1, proxy.Count("SRANDMEMBER"), "one look")
	})
	t.Run("and_not_for_jobs_that_were_not_pushed", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		answer := h.invoke(`{"class":""}`, "push", "--file", "-")
		require.NotContains(t, answer.errs, "no consumer")
		require.Zero(t, h.invoke("", "push", "A", "--unique", "until_executed").code)
		answer = h.invoke("", "push", "A", "--unique", "until_executed")
		require.Equal(t, exitDuplicate, answer.code)
		require.NotContains(t, answer.errs, "no consumer")
	})
}
