package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
)

// kill puts jobs among the dead, in this order.
func (h *house) kill(payloads ...string) {
	h.t.Helper()
	for n, payload := range payloads {
		h.do("ZADD", h.key("dead"), fmt.Sprint(1_700_000_000+n), payload)
	}
}

func deadJob(class, jid string) string {
	return fmt.Sprintf(`{"class":%q,"jid":%q,"queue":"mail","args":[1.0],"retry_count":3,"error_class":"Boom","error_message":"went wrong"}`, class, jid)
}

func TestActing(t *testing.T) {
	t.Parallel()
	t.Run("dead_jobs_are_retried_in_the_order_in_which_they_died", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		var dead, retried []string
		for n := range 600 { // more than a page, and of several kinds
			payload := deadJob("A", fmt.Sprint(n))
			if n%3 == 0 {
				payload = strings.Replace(payload, `"args"`, `"belay_batch":"b/q","args"`, 1)
			}
			h.do("ZADD", h.key("dead"), fmt.Sprint(1_700_000_000+n), payload)
			dead = append(dead, fmt.Sprint(n))
		}
		require.Equal(t, said{0, "600 retried\n", ""}, h.invoke("", "dead", "retry", "--all"))
		for _, payload := range h.payloads("LRANGE", h.key("queue:mail"), "0", "-1") {
			j, err := job.Parse(payload)
			require.NoError(t, err)
			retried = append(retried, j.JID())
		}
		slices.Reverse(retried) // the next one to be taken is the last one of the list
		require.Equal(t, dead, retried)
	})
	t.Run("a_named_job_is_moved_or_reported_as_missing", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.kill(deadJob("A", "1"), deadJob("A", "2"))
		require.Equal(t, said{0, "1 retried\n", ""}, h.invoke("", "dead", "retry", "1"))
		again := h.invoke("", "dead", "retry", "1", "2")
		require.Equal(t, exitAbsent, again.code)
		require.Equal(t, "1 retried\n", again.out)
		require.Contains(t, again.errs, "not there, or not any more: 1\n")
		require.Len(t, h.payloads("LRANGE", h.key("queue:mail"), "0", "-1"), 2)
		require.Contains(t, h.do("LINDEX", h.key("queue:mail"), "-1"), `"retry_count":2`)
	})
	t.Run("deleting_many_jobs_requires_a_yes", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.kill(deadJob("A", "1"), deadJob("B", "2"), deadJob("B", "3"), "garbage")
		h.do("LPUSH", h.key("queue:mail"), deadJob("A", "4"))
		for _, words := range []string{"dead clear", "dead delete --all", "dead delete --class B", "dead delete --unreadable", "queues clear mail", "queues delete mail --all", "queues kill mail --all", "processes stop --all"} {
			refused := h.invoke("y\n", strings.Fields(words)...)
			require.Equal(t, exitUsage, refused.code, words)
			require.Contains(t, refused.errs, "--yes", words)
		}
		require.Equal(t, int64(4), h.do("ZCARD", h.key("dead")))
		require.Equal(t, "2 deleted\n", h.invoke("", "dead", "delete", "--class", "B", "--yes").out)
		require.Equal(t, "1 deleted\n", h.invoke("", "dead", "delete", "--unreadable", "-y").out)
		require.JSONEq(t, `{"moved":1,"gone":0,"refused":0}`, h.invoke("", "dead", "clear", "--yes", "--json").out)
		require.Equal(t, said{0, "0 deleted\n", ""}, h.invoke("", "dead", "clear", "--yes"), "to clear what is empty is no failure")
		require.Equal(t, "1 deleted\n", h.invoke("", "queues", "clear", "mail", "--yes").out)
	})
	t.Run("unreadable_entries_are_killed_and_deleted_but_not_retried", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.do("ZADD", h.key("retry"), "1", "garbage")
		var shown struct{ ID, Problem string }
		require.NoError(t, json.Unmarshal([]byte(h.invoke("", "retries", "--json").out), &shown))
		refused := h.invoke("", "retries", "retry", "--all")
		require.Equal(t, exitFailure, refused.code)
		require.Contains(t, refused.errs, shown.ID)
		require.Contains(t, refused.errs, "1 could not be moved")
		require.Equal(t, "1 killed\n", h.invoke("", "retries", "kill", shown.ID).out)
		require.Equal(t, "1 deleted\n", h.invoke("", "dead", "delete", shown.ID).out)
	})
	t.Run("a_kill_keeps_the_dead_set_within_its_limits", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		now := time.Now().Unix()
		h.do("ZADD", h.key("dead"), fmt.Sprint(now-7200), deadJob("A", "1"), fmt.Sprint(now-60), deadJob("A", "2"), fmt.Sprint(now-59), deadJob("A", "3"))
		h.do("ZADD", h.key("retry"), fmt.Sprint(now+3600), deadJob("A", "4"), fmt.Sprint(now+3601), deadJob("A", "5"))
		require.Equal(t, "1 killed\n", h.invoke("", "retries", "kill", "4", "--dead-for", "1h").out)
		require.Equal(t, []string{deadJob("A", "2"), deadJob("A", "3"), deadJob("A", "4")}, h.payloads("ZRANGE", h.key("dead"), "0", "-1"))
		require.Equal(t, "1 killed\n", h.invoke("", "retries", "kill", "5", "--dead-limit", "2").out)
		require.Equal(t, []string{deadJob("A", "4"), deadJob("A", "5")}, h.payloads("ZRANGE", h.key("dead"), "0", "-1"))
	})
	t.Run("scheduled_jobs_run_now", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		jid := strings.TrimSpace(h.invoke("", "push", "A", "--in", "36h").out)
		require.Equal(t, "1 retried\n", h.invoke("", "scheduled", "retry", jid).out)
		require.Len(t, h.payloads("LRANGE", h.key("queue:default"), "0", "-1"), 1)
	})
	t.Run("quarantined_jobs_belong_to_their_queue", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.do("LPUSH", h.key("queue:mail"), deadJob("A", "1"), deadJob("A", "2"))
		h.do("LPUSH", h.key("belay:quarantine:mail"), deadJob("A", "3"), deadJob("A", "4"))
		require.Contains(t, h.invoke("", "queues", "list", "mail").out, "4 of 4\n")
		require.Contains(t, h.invoke("", "queues", "find", "mail", "3", "1").out, "quarantined\n")
		require.Equal(t, said{0, "2 deleted\n", ""}, h.invoke("", "queues", "delete", "mail", "3", "1"))
		require.Equal(t, exitAbsent, h.invoke("", "queues", "find", "mail", "3").code)
		require.Equal(t, said{0, "2 deleted\n", ""}, h.invoke("", "queues", "clear", "mail", "--yes"))
	})
	t.Run("jobs_of_a_queue_and_its_quarantine_are_killed", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.do("LPUSH", h.key("queue:mail"), deadJob("A", "1"), deadJob("B", "2"))
		h.do("LPUSH", h.key("belay:quarantine:mail"), deadJob("A", "3"))
		require.Equal(t, said{0, "2 killed\n", ""}, h.invoke("", "queues", "kill", "mail", "3", "1"))
		require.Equal(t, exitAbsent, h.invoke("", "queues", "kill", "mail", "1").code)
		require.JSONEq(t, `{"moved":1,"gone":0,"refused":0}`, h.invoke("", "queues", "kill", "mail", "--class", "B", "--yes", "--json").out)
		require.ElementsMatch(t, []string{deadJob("A", "1"), deadJob("B", "2"), deadJob("A", "3")}, h.payloads("ZRANGE", h.key("dead"), "0", "-1"))
	})
	t.Run("quarantined_jobs_are_retried_and_waiting_ones_stay", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		crashed := `{"class":"A","jid":"2","queue":"mail","args":[],"interrupted_count":2}`
		h.do("LPUSH", h.key("queue:mail"), deadJob("A", "1"))
		h.do("LPUSH", h.key("belay:quarantine:mail"), crashed, deadJob("A", "3"), "garbage")
		require.Equal(t, exitAbsent, h.invoke("", "queues", "retry", "mail", "1").code)
		require.Equal(t, said{0, "1 retried\n", ""}, h.invoke("", "queues", "retry", "mail", "2"))
		refused := h.invoke("", "queues", "retry", "mail", "--all")
		require.Equal(t, exitFailure, refused.code)
		require.Equal(t, "1 retried\n", refused.out)
		require.Contains(t, refused.errs, "1 could not be moved")
		require.Equal(t, []string{"garbage"}, h.payloads("LRANGE", h.key("belay:quarantine:mail"), "0", "-1"))
		waiting := h.payloads("LRANGE", h.key("queue:mail"), "0", "-1")
		require.Len(t, waiting, 3)
		require.NotContains(t, strings.Join(waiting, ""), "interrupted_count")
		require.Equal(t, deadJob("A", "1"), waiting[2])
	})
	t.Run("a_selection_of_jobs_is_required", func(t *testing.T) {
		t.Parallel()
		for _, words := range []string{"dead retry", "dead retry x --all", "dead delete --all --class A", "queues kill", "queues kill mail", "queues retry mail", "queues delete", "queues delete mail", "queues clear",
			"queues clear a b", "queues list", "queues pause", "queues find mail", "dead find", "dead retyr x", "processes stop", "processes quiet x --all", "dead --limit -1", "dead kill x", "retries clear x",
			"retries kill x --dead-limit 0", "return --to-ruby --dead-for 0s", "web --dead-limit -1"} {
			answer := invoke("", append(strings.Fields(words), "--redis", "redis://127.0.0.1:1/0")...)
			require.Equal(t, exitUsage, answer.code, "%s: %s", words, answer.errs)
			require.Equal(t, 1, strings.Count(answer.errs, "\n"), "%s: %s", words, answer.errs)
		}
	})
}

func TestListing(t *testing.T) {
	t.Parallel()
	t.Run("pages_and_filters", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		for i := range 60 {
			h.kill(fmt.Sprintf(`{"class":"%c","jid":"j%02d","queue":"mail","args":[%d]}`, "AB"[i%2], i, i))
			h.do("ZADD", h.key("dead"), fmt.Sprint(1_700_000_000+i), fmt.Sprintf(`{"class":"%c","jid":"j%02d","queue":"mail","args":[%d]}`, "AB"[i%2], i, i))
		}
		ids := func(words ...string) string {
			var all []string
			for line := range strings.Lines(h.invoke("", append([]string{"dead", "--json"}, words...)...).out) {
				var entry struct{ ID string }
				require.NoError(t, json.Unmarshal([]byte(line), &entry))
				all = append(all, entry.ID)
			}
			return strings.Join(all, " ")
		}
		require.Equal(t, "j59 j58 j57", ids("--limit", "3"))
		require.Equal(t, "j03 j01", ids("--class", "B", "--offset", "28"))
		require.Len(t, strings.Fields(ids("--limit", "0")), 60)
		require.Len(t, strings.Fields(ids()), 25)
		require.Contains(t, h.invoke("", "dead").out, "25 of 60\n")
		h.do("ZADD", h.key("dead"), "1", `{"class":"Wrapper","wrapped":"C","jid":"wrapped","queue":"mail","args":[]}`, "2", "garbage")
		require.Equal(t, "wrapped", ids("--class", "Wrapper"), "as an act chooses it")
		require.Regexp(t, "^unreadable-[0-9a-f]+$", ids("--unreadable"))
		several := h.invoke("", "dead", "find", "j07", "nowhere", "j03", "--json")
		require.Equal(t, exitAbsent, several.code)
		require.Contains(t, several.errs, "not there, or not any more: nowhere")
		require.Regexp(t, `(?s)"id":"j07".*\n.*"id":"j03"`, several.out)
	})
	t.Run("no_text_in_a_job_controls_the_terminal", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		evil := "\u001b[31m\u009b2J\u202e\nx"
		payload := job.Draft{Class: "Cl" + evil, Queue: "q" + evil, JID: "j" + evil, ArgsJSON: `["` + "\u202e\U000e0001" + `"]`}.Encode()
		h.do("ZADD", h.key("dead"), "1", payload)
		h.do("ZADD", h.key("dead"), "2", "garbage"+evil+"\xff")
		h.do("SADD", h.key("queues"), "q"+evil)
		h.do("LPUSH", h.key("queue:q"+evil), payload)
		for _, words := range [][]string{
			{"dead"}, {"dead", "--json"}, {"dead", "find", "j" + evil}, {"dead", "find", "j" + evil, "--json"}, {"dead", "find", evil},
			{"queues"}, {"queues", "--json"}, {"queues", "list", "q" + evil}, {"queues", "pause", "q" + evil}, {"queues", "clear", "q" + evil},
			{"dead", "retry", "--all"}, {"processes", "stop", evil}, {"dead", "retry", evil},
		} {
			answer := h.invoke("", words...)
			for _, line := range strings.SplitAfter(answer.out+answer.errs, "\n") {
				shown := strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\uFFFD", "")
				require.True(t, isPlain(shown), "%q: %q", words, line)
			}
			if words[len(words)-1] == "--json" {
				for line := range strings.Lines(answer.out) {
					require.True(t, json.Valid([]byte(line)), line)
				}
			}
		}
		var entry struct{ Class string }
		require.NoError(t, json.Unmarshal([]byte(h.invoke("", "queues", "find", "q"+evil, "j"+evil, "--json").out), &entry))
		require.Equal(t, "Cl"+evil, entry.Class, "and a reader of the JSON gets it as it is")
	})
	t.Run("queues_and_processes", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.do("SADD", h.key("queues"), "mail", "empty")
		h.do("LPUSH", h.key("queue:mail"), deadJob("A", "1"))
		require.Equal(t, "mail: paused\n", h.invoke("", "queues", "pause", "mail").out)
		require.Equal(t, "mail: paused already\nnew: paused (no job has ever been pushed to it)\n", h.invoke("", "queues", "pause", "mail", "new").out)
		require.Regexp(t, `mail +1 +\S+ +- +- +- +paused no consumer`, h.invoke("", "queues").out)
		require.Equal(t, "mail: resumed\n", h.invoke("", "queues", "resume", "mail").out)
		require.Contains(t, h.invoke("", "queues", "--json").out, `"name":"empty"`)
		now := time.Now().Unix()
		for ago, sample := range map[int64]string{60: `{"p":160,"f":6,"q":[["mail",8,1.5],["slow",0,0]]}`, 120: `{"p":100,"f":6,"q":[["mail",7,2]]}`, 7200: `{"p":1}`} {
			h.do("ZADD", h.key("belay:samples"), fmt.Sprint(now-ago), fmt.Sprint(now-ago, " ", sample))
		}
		require.Regexp(t, `AT +RUNS +FAILED +QUEUES\n.+ - +- +mail 7 \(2s\)\n.+ 1.0/s +- +mail 8 \(1.5s\), slow 0 \(0s\)\n2 samples`, h.invoke("", "queues", "history", "--last", "1h").out)
		require.Contains(t, h.invoke("", "queues", "history", "--json").out, `"processed":160,"failed":6,"queues":[{"name":"mail","size":8,"latency_seconds":1.5},`)
		require.Equal(t, exitUsage, h.invoke("", "queues", "history", "--last", "0s").code)
		h.do("HSET", h.key("h:1:aa"), "info", `{"hostname":"h","pid":1}`, "busy", "0")
		h.do("SADD", h.key("processes"), "h:1:aa")
		require.Contains(t, h.invoke("", "processes").out, "h:1:aa")
		require.Contains(t, h.invoke("", "processes", "--json").out, `"identity":"h:1:aa"`)
		require.Equal(t, said{0, "h:1:aa: quiet sent\n", ""}, h.invoke("", "processes", "quiet", "h:1:aa"))
		require.Equal(t, said{0, "h:1:aa: stop sent\n", ""}, h.invoke("", "processes", "stop", "--all", "--yes"))
		require.Equal(t, []string{"TERM", "TSTP"}, h.payloads("LRANGE", h.key("h:1:aa-signals"), "0", "-1"))
		missing := h.invoke("", "processes", "stop", "h:2:bb", "h:1:aa")
		require.Equal(t, exitAbsent, missing.code)
		require.Contains(t, missing.errs, "h:2:bb")
	})
}

func TestListsAndActsHaveTheSameFilters(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.kill(deadJob("A", "1"), strings.Replace(strings.Replace(deadJob("A", "2"), "Boom", "Late", 1), "mail", "slow", 1),
		strings.TrimSuffix(deadJob("B", "3"), "}")+`,"tags":["billing"]}`)
	ids := func(line string) string {
		answer := h.invoke("", append(strings.Fields(line), "--json")...)
		require.Zero(t, answer.code, "%s: %s", line, answer.errs)
		var all []string
		for line := range strings.Lines(answer.out) {
			var entry struct{ ID string }
			require.NoError(t, json.Unmarshal([]byte(line), &entry))
			all = append(all, entry.ID)
		}
		return strings.Join(all, " ")
	}
	for filter, want := range map[string]string{
		"": "3 2 1", "--class A": "2 1", "--error-class Boom": "3 1", "--error-class Late": "2", "--tag billing": "3", "--queue slow": "2",
		"--text boom": "3 1", "--text 3": "3", "--class A --error-class Boom --queue mail": "1", "--class A --tag billing": "",
	} {
		require.Equal(t, want, ids("list dead "+filter), filter)
		require.Equal(t, want, ids("dead "+filter), filter)
		if filter == "" {
			filter = "--all"
		}
		dry := h.invoke("", strings.Fields("dead delete --dry-run --json "+filter)...)
		require.Zero(t, dry.code, dry.errs)
		var groups inspect.Groups
		require.NoError(t, json.Unmarshal([]byte(dry.out), &groups))
		require.Equal(t, len(strings.Fields(want)), groups.Jobs, filter)
	}
	require.Equal(t, int64(3), h.do("ZCARD", h.key("dead")), "a dry run changes nothing, and needs no --yes")
	require.Regexp(t, `(?s)^CLASS +ERROR +JOBS +FIRST +LAST\n.*A +Boom +1 .*\n3 jobs match, and none was retried\n$`, h.invoke("", "dead", "retry", "--all", "--dry-run").out)
	require.Contains(t, h.invoke("", "dead", "delete", "2", "--dry-run").out, "1 job matches, and none was deleted\n")
	absent := h.invoke("", "dead", "delete", "2", "none", "--dry-run")
	require.Equal(t, exitAbsent, absent.code, "as without --dry-run")
	require.Regexp(t, `(?m)^1 job matches, and none was deleted$`, absent.out)
	require.Equal(t, "belay dead delete: not there, or not any more: none\n", absent.errs)
	require.Equal(t, "1 deleted\n", h.invoke("", "dead", "delete", "--error-class", "Late", "--queue", "slow", "--yes").out)
	grouped := h.invoke("", "list", "dead", "--group")
	require.Regexp(t, `(?m)^B +Boom +1 `, grouped.out)
	require.Contains(t, grouped.out, "2 of 2 groups, 2 jobs\n")
	h.do("SADD", h.key("queues"), "mail")
	h.do("LPUSH", h.key("queue:mail"), deadJob("A", "4"))
	h.do("LPUSH", h.key("belay:quarantine:mail"), deadJob("A", "5"))
	require.Equal(t, "4", ids("list queue mail"))
	require.Equal(t, "4 5", ids("queues list mail"))
	require.Contains(t, h.invoke("", "queues", "clear", "mail", "--dry-run").out, "2 jobs match, and none was deleted\n")
	for _, words := range []string{"list", "list nowhere", "list queue", "list dead mail", "list queue mail --queue mail"} {
		require.Equal(t, exitUsage, h.invoke("", strings.Fields(words)...).code, words)
	}
}

// If the reply to a page is lost, the command reports that the page may have been moved, and may be repeated.
func TestAnActWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.kill(deadJob("A", "0"))
	require.Equal(t, "1 retried\n", h.invoke("", "dead", "retry", "--all").out, "from here on the server knows the script")
	h.kill(deadJob("A", "1"))
	proxy := faultproxy.New(t, h.server.Addr())
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: h.key("queue:mail"), Do: faultproxy.Close()})
	answer := invoke("", "dead", "retry", "--all", "--redis", proxy.URL(), "--prefix", h.prefix)
	require.Equal(t, exitFailure, answer.code)
	require.Contains(t, answer.errs, "run it again to continue")
	require.Equal(t, said{0, "0 retried\n", ""}, h.invoke("", "dead", "retry", "--all"))
	require.Equal(t, int64(2), h.do("LLEN", h.key("queue:mail")), "and once")
}

func TestEveryActionHasACommand(t *testing.T) {
	t.Parallel()
	for place, command := range map[inspect.Place]string{
		inspect.PlaceQueue: "queues", inspect.PlaceQuarantined: "queues", inspect.PlaceScheduled: "scheduled", inspect.PlaceRetry: "retries",
		inspect.PlaceDead: "dead",
	} {
		for _, action := range inspect.ActionsIn(place) {
			words := []string{command, string(action)}
			if action == inspect.Move && command != "queues" {
				words = words[1:] // jobs of a set move with those of their queue
			}
			cmd, rest, err := newRoot().Find(words)
			require.NoError(t, err)
			require.Empty(t, rest, words)
			require.Equal(t, strings.Join(words, " "), strings.TrimPrefix(cmd.CommandPath(), "belay "))
		}
	}
}

func TestHelpOfEveryActIsComplete(t *testing.T) {
	t.Parallel()
	for _, cmd := range newRoot().Commands() {
		for _, act := range cmd.Commands() {
			require.NotEmpty(t, act.Short, act.CommandPath())
			require.Contains(t, act.Example, act.CommandPath(), act.CommandPath())
			require.Contains(t, act.Long, "Exit status", act.CommandPath())
		}
	}
}
