package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
)

func TestCancelPrintsWhatHappenedToEachJob(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	push := func(words ...string) string {
		return strings.TrimSpace(h.invoke("", append([]string{"push"}, words...)...).out)
	}
	waits, later := push("A", "-q", "mail"), push("A", "--in", "1h")
	require.Equal(t, said{0, waits + " removed (from queue)\n" + later + " removed (from scheduled)\n", ""}, h.invoke("", "cancel", waits, later))
	require.Equal(t, exitFailure, h.invoke("", "find", waits).code)

	absent := h.invoke("", "cancel", waits)
	require.Equal(t, exitAbsent, absent.code)
	require.Equal(t, waits+" marked (not found; workers drop it after their next heartbeat)\n", absent.out)
	require.Contains(t, absent.errs, "1 of 1 jobs were not cancelled")
	h.do("ZADD", h.key("dead"), "1", deadJob("A", "1"))
	require.Equal(t, said{exitAbsent, "1 done (in the dead set)\n", "belay cancel: 1 of 1 jobs were not cancelled\n"}, h.invoke("", "cancel", "1"))
	h.do("HSET", h.key("it-2"), "belay_state", "done", "belay_ended_at_ms", "1700000000000", "belay_job", deadJob("A", "2"))
	require.Equal(t, said{exitAbsent, "2 done (completed)\n", "belay cancel: 1 of 1 jobs were not cancelled\n"}, h.invoke("", "cancel", "2"))

	var result inspect.Cancellation
	answer := h.invoke("", "cancel", push("B"), "--json")
	require.Zero(t, answer.code)
	require.NoError(t, json.Unmarshal([]byte(answer.out), &result))
	require.Equal(t, inspect.CancelRemoved, result.Result)
	require.Equal(t, []string{"queue", "B", "default"}, []string{string(result.Place), result.Class, result.Queue})

	require.Equal(t, exitUsage, h.invoke("", "cancel").code)
	require.Equal(t, exitUsage, h.invoke("", "cancel", "a", "--timeout", "0s").code)
	require.Equal(t, exitFailure, h.invoke("", "cancel", "a\nb").code)
}

func TestCancelDoesNotReportAJobAsAbsentIfTheSearchFailed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.do("SET", h.key("retry"), "x") // the search ends here
	answer := h.invoke("", "cancel", "nowhere")
	require.Equal(t, exitFailure, answer.code)
	require.Equal(t, "nowhere marked (not found before the search ended; workers drop it after their next heartbeat)\n", answer.out)
	require.Regexp(t, `^belay cancel: .*WRONGTYPE.* \(1 job was marked before; run it again to look for the rest\)\n$`, answer.errs)
	require.Contains(t, h.invoke("", "cancel", "nowhere", "--json").out, `"unseen":"it failed: `)
}

func TestCancelEndsARunningProgram(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	jid := strings.TrimSpace(h.invoke("", "push", "A").out)
	// Until its next heartbeat the worker has not read the mark, and the job is found in its hands.
	w := h.startWorker(t, "--heartbeat", "5s", "--exec", "A=sh -c 'echo begun >out; sleep 60'")
	w.awaitFile("out")
	answer := h.invoke("", "cancel", jid)
	require.Zero(t, answer.code, answer.errs)
	require.Regexp(t, `^`+jid+` stopping \(in \S+\)\n$`, answer.out)
	w.awaitLog("run cancelled")
	require.Equal(t, int64(0), h.do("ZCARD", h.key("retry")))
}

func TestPushExpiresIn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.invoke("", "push", "A", "--expires-in", "90s", "--deadline", "1h")
	h.invoke(`{"class":"B","expires_in":7}`+"\n"+`{"class":"C"}`+"\n", "push", "--file", "-", "--expires-in", "1m")
	waiting, _ := h.do("LRANGE", h.key("queue:default"), "0", "-1").([]any)
	require.Len(t, waiting, 3)
	require.Regexp(t, `"expires_in":60,"expiry":\d`, waiting[0])
	require.Regexp(t, `"expires_in":7,"expiry":\d`, waiting[1])
	require.Regexp(t, `"expires_in":90,"expiry":\d+\.\d+,"belay_deadline_ms":\d{13},`, waiting[2])
	require.Equal(t, exitUsage, h.invoke("", "push", "A", "--expires-in", "-1s").code)
	require.Contains(t, h.invoke(`{"class":"B","expires_in":"soon"}`, "push", "--file", "-").errs, `the field "expires_in" is not a number of seconds`)
}
