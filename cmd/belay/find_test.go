package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/internal/drivertest"
)

func TestFindPrintsWhereAJobIs(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	jid := strings.TrimSpace(h.invoke("", "push", "A", "7", "-q", "mail").out)
	answer := h.invoke("", "find", jid)
	require.Zero(t, answer.code, answer.errs)
	require.Regexp(t, `^A: in queue mail, since \d{4}-\S+ \d\d:\d\d:\d\d \S+, no process takes from it\n$`, answer.out)
	find := func() (found inspect.Found) {
		require.NoError(t, json.Unmarshal([]byte(h.invoke("", "find", jid, "--json").out), &found))
		return found
	}
	require.Equal(t, inspect.PlaceQueue, find().Place)
	require.JSONEq(t, "[7]", string(find().Entry.Args))

	missing := h.invoke("", "find", "nowhere")
	require.Equal(t, exitFailure, missing.code)
	require.Contains(t, missing.errs, "not found: ")
	require.Contains(t, h.invoke("", "find", "nowhere", "--json").out, `"state":"not_found"`)
	late := h.invoke("", "find", "nowhere", "--timeout", "1ns")
	require.Equal(t, exitUnseen, late.code)
	require.Regexp(t, `not found in the \d+ entries looked at; it took too long: stopped in `, late.errs)
	require.Equal(t, exitUsage, h.invoke("", "find").code)
	require.Equal(t, exitUsage, h.invoke("", "find", "a", "b").code)
}

func TestFindSaysWhyAWaitingJobIsNotStarted(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.push("Send::Invoice", "-q", "mail", "--jid", "queued")
	h.wait("class.Send%3A%3AInvoice:", "mail", deadJob("Send::Invoice", "waits"))
	h.kill(deadJob("Send::Invoice", "died"))
	shows := func(jid, state, words string) {
		t.Helper()
		require.Regexp(t, `^Send::Invoice: (in queue mail|waiting at gate class.Send%3A%3AInvoice:, number 1 in line, of queue mail)(, since [^,]*)?`+words+`(, failed runs.*)?\n$`, h.invoke("", "find", jid).out)
		var found inspect.Found
		require.NoError(t, json.Unmarshal([]byte(h.invoke("", "find", jid, "--json").out), &found))
		require.Equal(t, inspect.Held(state), found.Held)
	}
	shows("queued", "no_consumer", ", no process takes from it")
	h.consumer("mail")
	shows("queued", "", "")
	require.Zero(t, h.invoke("", "queues", "pause", "mail").code)
	shows("queued", "queue_paused", regexp.QuoteMeta(", the queue is paused (belay queues resume mail)"))
	require.Zero(t, h.invoke("", "classes", "pause", "Send::Invoice").code)
	for _, jid := range []string{"queued", "waits"} {
		shows(jid, "class_paused", regexp.QuoteMeta(", the class is paused (belay classes resume Send::Invoice)"))
	}
	require.NotContains(t, h.invoke("", "find", "died").out, "paused")

	// A name that an operator copies into a shell is one word there.
	hostile := `a; rm -rf 'x'`
	h.do("SADD", h.key("paused"), hostile)
	h.do("LPUSH", h.key("queue:"+hostile), `{"class":"A","jid":"odd","args":[],"queue":"`+hostile+`"}`)
	h.do("SADD", h.key("queues"), hostile)
	require.Contains(t, h.invoke("", "find", "odd").out, `the queue is paused (belay queues resume 'a; rm -rf '\''x'\''')`)
}

func TestKeptErrorsAreShown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.do("ZADD", h.key("retry"), "4000000000", `{"class":"A","jid":"kept","queue":"mail","args":[],"retry":true,"retry_count":1,`+
		`"error_class":"E","error_message":"second","belay_errors":[{"attempt":1,"at":"2023-11-14T22:13:20Z","class":"E","message":"first\u001b[31m"},`+
		`{"attempt":2,"at":"2023-11-14T22:14:20Z","class":"E","message":"second"}]}`)
	require.Regexp(t, `(?m)^failed run 1 at 2023-11-1\S+ \S+ \S+: E: first\\\S+$`, h.invoke("", "find", "kept").out)
	require.Regexp(t, `(?m)^failed run +2 at 2023-11-1\S+ \S+ \S+: E: second$`, h.invoke("", "retries", "find", "kept").out)
	require.Contains(t, h.invoke("", "find", "kept", "--json").out, `"errors":[{"attempt":1,"at":"2023-11-14T22:13:20Z","class":"E","message":"first`)
}

// One job has one count of its failed runs, wherever it is shown.
func TestFailedRunsAreCountedAlikeEverywhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.startWorker(t, "--exec", "A=sh -c 'echo bad >&2; exit 3'")
	h.push("A", "--retry", "2")
	drivertest.Eventually(t, func() bool { return len(h.payloads("ZRANGE", h.key("retry"), "0", "-1")) == 1 }, soon, 5*time.Millisecond)
	w.awaitLog(`"attempt":1,"max_attempts":3,"exit":"retry"`)
	text := h.invoke("", "retries", "--json").out
	require.Contains(t, text, `"attempt":1,"max_attempts":3,"retry_count":0,`)
	var entry inspect.Entry
	require.NoError(t, json.Unmarshal([]byte(text), &entry))
	require.Contains(t, h.invoke("", "find", entry.ID).out, ", failed runs: 1 of 3, the last with ExitStatus: exit status 3: bad")
	require.Regexp(t, `failed runs +1 of 3`, h.invoke("", "retries", "find", entry.ID).out)
	require.Regexp(t, ` default +1 of 3 `, h.invoke("", "retries").out)
}

func TestFindShowsEverythingAboutAJob(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	payload := strings.TrimSuffix(deadJob("A", "1"), "}") + `,"tags":["billing"],"meta":{"tenant":"7"},"retry":5,"belay_timeout_ms":1500}`
	h.kill(payload)
	shown := h.invoke("", "dead", "find", "1").out
	for _, line := range []string{"tags         billing\n", "meta         tenant: 7\n", "retry        5\n", "timeout      1.5s\n", "payload      " + payload + "\n"} {
		require.Contains(t, shown, line)
	}
	var listed, inDead inspect.Entry
	var found inspect.Found
	require.NoError(t, json.Unmarshal([]byte(h.invoke("", "dead", "--json").out), &listed))
	require.NoError(t, json.Unmarshal([]byte(h.invoke("", "dead", "find", "1", "--json").out), &inDead))
	require.NoError(t, json.Unmarshal([]byte(h.invoke("", "find", "1", "--json").out), &found))
	require.Nil(t, listed.Details)
	require.Equal(t, []string{"billing"}, inDead.Details.Tags)
	require.JSONEq(t, payload, string(inDead.Details.Payload))
	require.Equal(t, inDead.Details, found.Entry.Details)
}

func TestFindNamesTheWorkerOfARunningJob(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	jid := strings.TrimSpace(h.invoke("", "push", "A").out)
	w := h.startWorker(t, "--exec", "A=sh -c 'echo begun >out; sleep 60'")
	w.awaitFile("out")
	require.Regexp(t, `running in \S+ \(alive\), of queue default`, h.invoke("", "find", jid).out)
}

func TestQueuesMove(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.do("LPUSH", h.key("queue:mial"), deadJob("A", "1"), deadJob("B", "2"), deadJob("A", "3"))
	h.do("SADD", h.key("queues"), "mial", "mail")
	require.Equal(t, said{0, "1 moved\n", ""}, h.invoke("", "queues", "move", "mial", "mail", "--class", "B"))
	require.Equal(t, said{0, "1 moved\n", ""}, h.invoke("", "queues", "move", "mial", "mail", "3"))
	require.Equal(t, said{0, "1 moved\n", ""}, h.invoke("", "queues", "move", "mial", "mail"))
	require.Equal(t, int64(3), h.do("LLEN", h.key("queue:mail")))
	absent := h.invoke("", "queues", "move", "mal", "mail")
	require.Equal(t, "0 moved\n", absent.out)
	require.Contains(t, absent.errs, "no job has ever been pushed to queue mal; did you mean mail")
	for _, words := range []string{"queues move", "queues move a", "queues move a a", "queues move a b --class C d"} {
		require.Equal(t, exitUsage, h.invoke("", strings.Fields(words)...).code, words)
	}
}

// A lock of a Ruby gem stays when Go runs the job, so the move warns of it.
func TestMoveWarnsOfLocksOfRubyGems(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for n, member := range []string{`"lock_digest":"uniquejobs:1"`, `"lock_digest":"uniquejobs:2"`, `"unique_for":600`, `"tags":["a"]`} {
		h.do("LPUSH", h.key("queue:mail"), fmt.Sprintf(`{"class":"A","jid":"%d","args":[],"queue":"mail",%s}`, n, member))
	}
	moved := h.invoke("", "move", "--class", "A", "--from", "mail", "--to", "go_mail")
	require.Equal(t, []any{0, "4 moved\n"}, []any{moved.code, moved.out})
	require.Contains(t, moved.errs, "warning: 1 of them are locked by Sidekiq Enterprise")
	require.Contains(t, moved.errs, "warning: 2 of them are locked by sidekiq-unique-jobs")
}

// A class gets a queue of its own: none of its jobs goes to the old queue any more, whenever it runs.
func TestMoveTakesAClassToAnotherQueue(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.do("LPUSH", h.key("queue:mail"), deadJob("A", "1"), deadJob("B", "2"), deadJob("A", "3"))
	h.do("LPUSH", h.key("belay:quarantine:mail"), deadJob("A", "4"))
	for _, set := range []string{"schedule", "retry", "dead"} {
		h.do("ZADD", h.key(set), "1800000000", deadJob("A", "of-"+set), "1800000000", deadJob("B", "of-"+set))
	}
	require.Equal(t, said{0, "6 moved\n", ""}, h.invoke("", "move", "--class", "A", "--from", "mail", "--to", "go_mail"))
	require.Equal(t, said{0, "0 moved\n", ""}, h.invoke("", "move", "--class", "A", "--from", "mail", "--to", "go_mail"), "a second time")
	in := func(queue string) (jids []string) {
		for _, home := range []string{"scheduled", "retries", "dead"} {
			for line := range strings.Lines(h.invoke("", home, "--json").out) {
				var entry inspect.Entry
				require.NoError(t, json.Unmarshal([]byte(line), &entry))
				if entry.Queue == queue {
					jids = append(jids, entry.Class+entry.ID)
				}
			}
		}
		for _, payload := range append(h.payloads("LRANGE", h.key("belay:quarantine:"+queue), "0", "-1"), h.payloads("LRANGE", h.key("queue:"+queue), "0", "-1")...) {
			var waiting struct{ Class, JID string }
			require.NoError(t, json.Unmarshal([]byte(payload), &waiting))
			jids = append(jids, waiting.Class+waiting.JID)
		}
		return jids
	}
	require.Equal(t, []string{"Aof-schedule", "Aof-retry", "Aof-dead", "A4", "A3", "A1"}, in("go_mail"))
	require.Equal(t, []string{"Bof-schedule", "Bof-retry", "Bof-dead", "B2"}, in("mail"))

	require.Contains(t, h.invoke("", "move", "--from", "go_mial", "--to", "mail").errs, "did you mean go_mail")
	for _, words := range []string{"move", "move --from a", "move --to a", "move --from a --to a", "move x --from a --to b"} {
		require.Equal(t, exitUsage, h.invoke("", strings.Fields(words)...).code, words)
	}
}

func TestAMisspelledNameGetsASuggestion(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"stauts": "did you mean status?", "que": "did you mean queues?", "queues puase": "did you mean pause?", "dead retyr": "did you mean retry?",
		"scheduled run 217d2cffc30f4a168b3a76d9": "did you mean retry?",
		"utterly-else":                           "there is no command",
	} {
		answer := invoke("", strings.Fields(words)...)
		require.Equal(t, exitUsage, answer.code)
		require.Contains(t, answer.errs, want)
	}
	h := newHouse(t)
	h.do("SADD", h.key("queues"), "mail")
	require.Contains(t, h.invoke("", "queues", "pause", "mial").out, "(no job has ever been pushed to it; did you mean mail?)")
	require.Contains(t, h.invoke("", "queues", "list", "mial").errs, "did you mean mail?")
	require.Empty(t, h.invoke("", "queues", "list", "mail").errs)
}

func TestTheVersionIsAFlagToo(t *testing.T) {
	t.Parallel()
	answer := invoke("", "--version")
	require.Equal(t, said{0, invoke("", "version").out, ""}, answer)
	require.Contains(t, answer.out, belay.Version)
}

func TestAShellCompletesQueuesAndEnumerations(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.do("SADD", h.key("queues"), "mail", "default", "evil\x1b")
	offered := func(words ...string) string {
		answer := invoke("", slices.Concat([]string{"__complete"}, h.at(), words)...)
		require.Zero(t, answer.code)
		return answer.out
	}
	for _, words := range []string{"queues list", "queues move mail", "queues pause mail", "work -q", "push A -q", "queues clear"} {
		require.Equal(t, "default\nmail\n:4\n", offered(append(strings.Fields(words), "")...), words)
	}
	require.Equal(t, "mail\n:4\n", offered("queues", "find", "m"))
	require.Equal(t, ":4\n", offered("queues", "list", "mail", ""))
	require.Equal(t, "debug\ninfo\nwarn\nerror\n:4\n", offered("work", "--log-level", ""))
	require.Equal(t, "go-redis\nrueidis\n:4\n", offered("status", "--client", ""))
	require.Zero(t, h.invoke("", "periodic", "add", "nightly", "0 3 * * *", "A").code)
	for _, words := range []string{"periodic pause", "periodic run", "periodic history", "periodic remove other"} {
		require.Equal(t, "nightly\n:4\n", offered(append(strings.Fields(words), "")...), words)
	}
	for _, words := range []string{"cancel", "find", "dead retry", "push", "processes quiet", "locks release", "periodic add", "dead --class", "push --jid", "work --name"} {
		require.Equal(t, ":4\n", offered(append(strings.Fields(words), "")...), "%s: it names no files", words)
	}
	require.Equal(t, "retry\n:6\n", offered("find", "--in", "ret"))
	require.Equal(t, "dead,running\n:6\n", offered("find", "--in", "dead,run"))
	h.startWorker(t, "--exec", "Report=true")
	h.push("Report")
	drivertest.Eventually(t, func() bool { return offered("push", "") == "Report\n:4\n" }, soon, 20*time.Millisecond, "the worker counts by class")
	for _, words := range []string{"push", "locks find", "periodic add nightly @daily", "classes --class"} {
		require.Equal(t, "Report\n:4\n", offered(append(strings.Fields(words), "")...), words)
	}
	h.kill(deadJob("Mail", "9"))
	require.Equal(t, "Mail\n:4\n", offered("dead", "--class", ""), "a class of the jobs in that place")
	for _, words := range []string{"processes quiet", "processes stop other"} {
		require.Regexp(t, `^\S+:\d+:[0-9a-f]{12}\n:4\n$`, offered(append(strings.Fields(words), "")...), words)
	}
	for _, words := range []string{"push --file", "push A --then", "work --config", "work --logfile", "web --auth"} {
		require.Equal(t, ":0\n", offered(append(strings.Fields(words), "")...), "%s: it names files", words)
	}
	away := invoke("", "__complete", "--redis", "redis://127.0.0.1:1/0", "queues", "list", "")
	require.Equal(t, ":4\n", away.out)
	require.NotContains(t, away.errs, "refused", "nothing is said in the middle of a line")
}

func TestARemarkOnOneCrashIsSingular(t *testing.T) {
	t.Parallel()
	require.Equal(t, "in progress in 1 crash", remark(inspect.Entry{Interrupted: 1}))
	require.Equal(t, "in progress in 2 crashes", remark(inspect.Entry{Interrupted: 2}))
}
