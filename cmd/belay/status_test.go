package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/internal/drivertest"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	require.Zero(t, h.invoke("", "push", "A", "-q", "mail").code)
	h.do("SADD", h.key("queues"), "evil\x1b[31m\u009b\u202e\nDEAD 0")
	h.do("SADD", h.key("processes"), "host\x1b]0;title\a:1:x")
	h.do("SET", h.key("stat:processed"), "41")
	for _, client := range []string{"go-redis", "rueidis"} {
		answer := h.invoke("", "status", "--client", client)
		require.Zero(t, answer.code, answer.errs)
		require.Regexp(t, `(?m)^mail +1 `, answer.out)
		require.Regexp(t, `(?m)^41 +0 +1 `, answer.out)
		require.NotContains(t, answer.out, "\x1b", "names control no terminal")
		require.NotRegexp(t, `(?m)^DEAD 0`, answer.out, "names bring no lines")

		answer = h.invoke("", "status", "--json", "--client", client)
		var status inspect.Status
		decoder := json.NewDecoder(strings.NewReader(answer.out))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(&status))
		require.Equal(t, int64(41), status.Processed)
		require.Len(t, status.Queues, 2)
		require.True(t, isPlain(strings.TrimSuffix(answer.out, "\n")), "%q", answer.out)
	}
}

// What Redis refuses to tell is not shown as if it were nothing.
func TestUnreadablePartsAreAFailure(t *testing.T) {
	t.Parallel()
	nowhere := "redis://" + drivertest.Redis(t).Addr() + "/99"
	for _, words := range []string{"queues", "processes", "status"} {
		answer := invoke("", words, "--redis", nowhere)
		require.Equal(t, exitFailure, answer.code, words)
		require.Empty(t, answer.out, words)
		require.Contains(t, answer.errs, "belay "+words+": ")
	}
	h := newHouse(t)
	h.do("SADD", h.key("queues"), "good", "odd")
	h.do("SET", h.key("queue:odd"), "x")
	answer := h.invoke("", "queues")
	require.Equal(t, exitFailure, answer.code)
	require.Contains(t, answer.errs, "queue odd: WRONGTYPE")
	require.Contains(t, answer.out, "good")
	require.Zero(t, h.invoke("", "processes").code, "that is about queues")
	require.Zero(t, h.invoke("", "status").code, "it shows problems beside all that it could read")
	h.do("SET", h.key("processes"), "x")
	require.Equal(t, exitFailure, h.invoke("", "processes", "--json").code)
	require.Equal(t, exitFailure, h.invoke("", "processes", "stop", "--all", "--yes").code)
}

// Jobs in a queue that no worker takes from wait for ever, and nothing else says so.
func TestStatusMarksQueuesWithoutAConsumer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.push("A", "-q", "mail")
	h.do("SADD", h.key("queues"), "alone", "empty")
	h.do("LPUSH", h.key("belay:quarantine:alone"), deadJob("A", "1"))
	out := h.invoke("", "status").out
	require.Regexp(t, `(?m)^mail +1 .*no consumer`, out)
	require.Regexp(t, `(?m)^alone +0 .*1 quarantined .*no consumer`, out)
	require.NotRegexp(t, `(?m)^empty .*no consumer`, out)
	require.Contains(t, h.invoke("", "queues", "--json").out, `"no_consumer":true`)
}

// The jobs of a worker that was killed are on their way back: until then they are counted where they came
// from.
func TestStatusShowsJobsHeldByDeadWorkers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.push("A", "-q", "mail")
	w := h.startWorker(t, "-q", "mail", "-c", "3", "--exec", "A=sh -c 'echo begun >out; sleep 60'")
	w.awaitFile("out")
	require.NotContains(t, h.invoke("", "status").out, "dead workers")
	w.signal(syscall.SIGKILL)
	<-w.gone
	drivertest.Eventually(t, func() bool { return strings.Contains(h.invoke("", "status").out, "lapsed") }, soon, 20*time.Millisecond)
	out := h.invoke("", "status").out
	require.Regexp(t, `(?m)^held by dead workers: 1$`, out)
	require.Regexp(t, `(?m)^mail +0 .*held by dead workers: 1 no consumer`, out)
	require.Regexp(t, `(?m)^mail +0 .*held by dead workers: 1 no consumer`, h.invoke("", "queues").out)
	var status inspect.Status
	require.NoError(t, json.Unmarshal([]byte(h.invoke("", "status", "--json").out), &status))
	require.Equal(t, int64(1), status.HeldByDead)
	require.Equal(t, int64(1), status.Queues[0].HeldByDead)
	require.True(t, status.Queues[0].NoConsumer)
}

// What the help of status promises of --json is what there is.
