package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
)

func TestPush(t *testing.T) {
	t.Parallel()
	t.Run("writes_arguments_as_Ruby_does", func(t *testing.T) {
		t.Parallel()
		for _, client := range []string{"go-redis", "rueidis"} {
			h := newHouse(t)
			answer := h.invoke("", "push", "Mail::Welcome", "1.0", "9007199254740993", `"\u00e9é\/"`, `{"a":[],"b":{}, "a":[1E5]}`, "-5", "null",
				"-q", "mail", "--retry", "3", "--client", client)
			require.Zero(t, answer.code, answer.errs)
			stored := h.payloads("LRANGE", h.key("queue:mail"), "0", "-1")
			require.Len(t, stored, 1)
			j, err := job.Parse(stored[0])
			require.NoError(t, err)
			require.Equal(t, `[1.0,9007199254740993,"éé/",{"a":[100000.0],"b":{}},-5,null]`, j.ArgsJSON())
			require.Equal(t, "Mail::Welcome", j.Class())
			require.Equal(t, job.RetryRule{Kind: job.RetryLimit, Limit: 3}, j.RetryRule())
			require.Equal(t, j.JID()+"\n", answer.out)
			require.Equal(t, []string{"mail"}, h.payloads("SMEMBERS", h.key("queues")))
		}
	})
	t.Run("options_and_receipt", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		answer := h.invoke("", "push", "A", "--retry", "false", "--jid", "my-id", "--json")
		require.JSONEq(t, `{"jid":"my-id","queue":"default","status":"queued"}`, answer.out)
		require.Contains(t, h.payloads("LRANGE", h.key("queue:default"), "0", "-1")[0], `"retry":false`)
		require.Empty(t, h.payloads("KEYS", h.key("belay:pushes:*")), "what has been answered need not be remembered")
	})
	t.Run("next_jobs_of_a_file_and_of_a_line", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		next := `{"class":"Load","args":[1.0],"belay_then":[{"class":"Report","queue":"low"}]}` + "\n\n" + `{"class":"Audit","retry":0}`
		answer := h.invoke(next, "push", "Extract", "7", "--then", "-")
		require.Zero(t, answer.code, answer.errs)
		answer = h.invoke(`{"class":"Extract","belay_then":[`+strings.ReplaceAll(next, "\n\n", ",")+`]}`, "push", "--file", "-")
		require.Zero(t, answer.code, answer.errs)
		for _, payload := range h.payloads("LRANGE", h.key("queue:default"), "0", "-1") {
			j, err := job.Parse(payload)
			require.NoError(t, err)
			require.Len(t, j.Then(), 2)
			load, err := job.Parse(j.Then()[0])
			require.NoError(t, err)
			require.Equal(t, []string{"Load", "[1.0]", j.JID()}, []string{load.Class(), load.ArgsJSON(), load.After()})
			require.Len(t, load.Then(), 1)
			require.Contains(t, j.Then()[1], `"class":"Audit"`)
			found := h.invoke("", "find", j.JID())
			require.Contains(t, found.out, "next jobs: 3, Load, Report, Audit", found.errs)
		}
		for in, want := range map[string]string{
			`{"class":"Load"}` + "\n" + `{"args":[]}`:  `--then, line 2: it has no "class"`,
			`{"class":"Load","at":4000000000}`:         "a next job is pushed when the job before it is done",
			`{"class":"A","belay_then":[{"class":1}]}`: `--then, line 1: its next job 1: the field "class" has the wrong type`,
			`{"class":"A","belay_then":{}}`:            `the field "belay_then" has the wrong type`,
			`{"class":"A","belay_after":"x"}`:          "use Then",
			strings.Repeat(`{"class":"A"}`+"\n", 17):   "it has 17 next jobs, and 16 are allowed",
		} {
			answer := h.invoke(in, "push", "A", "--then", "-")
			require.Equal(t, exitUsage, answer.code, in)
			require.Contains(t, answer.errs, want)
		}
		require.Equal(t, exitUsage, h.invoke("", "push", "A", "--then", "").code)
		for _, in := range []string{"", "\n\n"} {
			require.Equal(t, said{exitUsage, "", "belay push: --then: the file has no job; nothing was pushed (see: belay push --help)\n"}, h.invoke(in, "push", "A", "--then", "-"))
		}
		require.Equal(t, exitUsage, h.invoke("", "push", "--file", "-", "--then", "x").code)
		require.Equal(t, exitFailure, h.invoke("", "push", "A", "--then", "/nonexistent").code)
		require.Len(t, h.payloads("LRANGE", h.key("queue:default"), "0", "-1"), 2, "nothing of that was pushed")
	})
	t.Run("a_job_on_too_few_replicas_is_stored", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		answer := h.invoke("", "push", "A", "--jid", "a", "--replicas", "2", "--replica-timeout", "50ms")
		require.Equal(t, exitReplicas, answer.code)
		require.Equal(t, "a\n", answer.out)
		require.Contains(t, answer.errs, "0 of 2 within 50ms")
		answer = h.invoke(`{"class":"A","jid":"b"}`, "push", "--file", "-", "--replicas", "1", "--replica-timeout", "50ms", "--json")
		require.Equal(t, exitReplicas, answer.code)
		require.JSONEq(t, `{"jid":"b","queue":"default","status":"queued","line":1}`, answer.out)
		require.Contains(t, answer.errs, "nothing after line 1 was pushed")
		require.Len(t, h.payloads("LRANGE", h.key("queue:default"), "0", "-1"), 2)
		for _, args := range [][]string{{"--replicas", "0"}, {"--replica-timeout", "1s"}, {"--replicas", "1", "--replica-timeout", "2m"}} {
			require.Equal(t, exitUsage, h.invoke("", append([]string{"push", "A"}, args...)...).code, args)
		}
	})
	t.Run("a_later_job_goes_to_the_schedule", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		answer := h.invoke("", "push", "A", "--in", "36h", "--json")
		require.Zero(t, answer.code, answer.errs)
		require.Contains(t, answer.out, `"status":"scheduled"`)
		require.Zero(t, h.invoke("", "push", "A", "--at", "2050-12-24T18:00:00+01:00").code)
		require.Zero(t, h.invoke(`{"class":"A","at":2555000000.5}`, "push", "--file", "-").code)
		stored := h.payloads("ZRANGE", h.key("schedule"), "0", "-1")
		require.Len(t, stored, 3)
		require.NotContains(t, strings.Join(stored, ""), "enqueued_at")
		require.NotContains(t, strings.Join(stored, ""), `"at"`)
		require.Empty(t, h.payloads("LRANGE", h.key("queue:default"), "0", "-1"))
	})
	t.Run("an_invalid_instant_is_refused", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		for _, args := range [][]string{{"--in", "-1s"}, {"--in", "1s", "--at", "2050-01-01T00:00:00Z"}, {"--at", "tomorrow"}, {"--at", "2999-01-01T00:00:00Z"}} {
			answer := h.invoke("", append([]string{"push", "A"}, args...)...)
			require.Equal(t, exitUsage, answer.code, args)
			require.NotEmpty(t, answer.errs)
		}
		require.Empty(t, h.payloads("ZRANGE", h.key("schedule"), "0", "-1"))
	})
	t.Run("refuses_jobs_that_no_worker_can_run", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		for _, args := range [][]string{{"push", ""}, {"push", "A\n"}, {"push", "A", "-q", ""}, {"push", "A", `{"a":}`}, {"push", "A", "--retry", "-1"}} {
			require.Equal(t, exitUsage, h.invoke("", args...).code, args)
		}
		require.Empty(t, h.payloads("LRANGE", h.key("queue:default"), "0", "-1"))
	})
}

// An operator must see at once why nothing can be pushed.
func TestPushToAFullRedis(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
	for i, err := 0, error(nil); err == nil; i++ {
		_, err = server.Do(t.Context(), "SET", fmt.Sprint("filler", i), strings.Repeat("x", 1<<14))
		require.Less(t, i, 1000, "it is full before that")
	}
	for _, args := range [][]string{{"push", "A"}, {"push", "--file", "-"}} {
		answer := invoke(`{"class":"A"}`, append(args, "--redis", server.URL())...)
		require.Equal(t, exitFailure, answer.code)
		require.Contains(t, answer.errs, "out of memory")
	}
}

// A push that was cut off is repeated, and its jobs are stored once.
func TestPushWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		for _, args := range [][]string{{"push", "A", "--jid", "j1"}, {"push", "--file", "-"}} {
			for _, lost := range []faultproxy.Rule{faultproxy.DropReply("j1"), faultproxy.DropRequest("j1")} {
				h := newHouse(t)
				proxy := faultproxy.New(t, h.server.Addr())
				proxy.Add(lost)
				answer := invoke(`{"class":"A","jid":"j1"}`, append(args, "--redis", proxy.URL(), "--prefix", h.prefix, "--client", client)...)
				require.Zero(t, answer.code, answer.errs)
				require.Equal(t, "j1\n", answer.out)
				require.Equal(t, int64(1), h.do("LLEN", h.key("queue:default")))
			}
		}
	}
}

// A file's jobs are exactly those of the file, whatever is cut off on the way.
func TestPushFileOverAConnectionThatBreaks(t *testing.T) {
	t.Parallel()
	const n = 3000
	h := newHouse(t)
	proxy := faultproxy.New(t, h.server.Addr())
	for nth := range 8 { // of twelve slices
		proxy.Add(faultproxy.Rule{On: faultproxy.Direction(nth % 2), Token: "belay:pushes:", Nth: 1 + nth, Do: faultproxy.Close()})
	}
	var file, want strings.Builder
	for i := range n {
		_, _ = fmt.Fprintf(&file, "{\"class\":\"A\",\"jid\":\"%d\"}\n", i)
		_, _ = fmt.Fprintf(&want, "%d\n", i)
	}
	answer := invoke(file.String(), "push", "--file", "-", "--redis", proxy.URL(), "--prefix", h.prefix)
	require.Zero(t, answer.code, answer.errs)
	require.Equal(t, want.String(), answer.out)
	require.Contains(t, answer.errs, "3000 queued, 0 refused, 0 unknown, 0 not pushed")
	stored := h.payloads("LRANGE", h.key("queue:default"), "0", "-1")
	require.Len(t, stored, n)
	for i, payload := range stored {
		require.Contains(t, payload, fmt.Sprintf("\"jid\":\"%d\"", n-1-i))
	}
	// On a busy machine a call that is too slow ends its connection, too.
	require.GreaterOrEqual(t, proxy.Accepted()-1, 8, "the line was cut that often")
	require.Len(t, h.payloads("KEYS", h.key("belay:pushes:*")), 1, "as much memory as one push takes")
}

// A Redis that restarts while a file is pushed costs time and no job.
func TestPushFileWhileRedisRestarts(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--dir", t.TempDir())
	proxy := faultproxy.New(t, server.Addr())
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: "belay:pushes:", Nth: 3, Do: faultproxy.Before(func() {
		server.Kill()
		server.Restart(t)
	})})
	answer := invoke(strings.Repeat("{\"class\":\"A\"}\n", 2000), "push", "--file", "-", "--redis", proxy.URL())
	require.Zero(t, answer.code, answer.errs)
	stored, err := server.Do(t.Context(), "LLEN", "queue:default")
	require.NoError(t, err)
	require.Equal(t, int64(2000), stored)
}

// The command reports no more than it knows: after a timeout the job may be stored, or not.
func TestPushWhoseRepliesAreAllLost(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"push", "A", "--jid", "j1"}, {"push", "--file", "-"}} {
		h := newHouse(t)
		proxy := faultproxy.New(t, h.server.Addr())
		proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: "j1", Do: faultproxy.Close()})
		answer := invoke(`{"class":"A","jid":"j1"}`, append(args, "--redis", proxy.URL(), "--prefix", h.prefix, "--repeat-for", "300ms")...)
		require.Equal(t, exitFailure, answer.code)
		require.Contains(t, answer.errs, "repeating the push, which stores nothing twice: ")
		require.Contains(t, answer.errs, "Redis may or may not have")
		require.Contains(t, answer.errs, "j1")
		require.Empty(t, answer.out)
		require.Equal(t, int64(1), h.do("LLEN", h.key("queue:default")), "it was there all the while, and once")
	}
}

func TestPushFile(t *testing.T) {
	t.Parallel()
	t.Run("each_line_is_a_job", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		answer := h.invoke(`{"class":"A","args":[1.0, "x y"],"queue":"m","retry":0,"jid":"j1","tags":["t"],"extra":{"b":1.0}}

{"class":"B"}`, "push", "--file", "-", "-q", "other", "--retry", "7")
		require.Zero(t, answer.code, answer.errs)
		require.Contains(t, answer.errs, "2 queued, 0 refused")
		first, err := job.Parse(h.payloads("LRANGE", h.key("queue:m"), "0", "-1")[0])
		require.NoError(t, err)
		require.Equal(t, `[1.0,"x y"]`, first.ArgsJSON())
		require.Equal(t, 0, first.RetryRule().Limit)
		extra, _ := first.Field("extra")
		require.Equal(t, `{"b":1.0}`, extra)
		second, err := job.Parse(h.payloads("LRANGE", h.key("queue:other"), "0", "-1")[0])
		require.NoError(t, err)
		require.Equal(t, 7, second.RetryRule().Limit)
		require.Equal(t, "j1\n"+second.JID()+"\n", answer.out)
	})
	t.Run("wrong_lines_are_reported_and_the_others_are_pushed", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		lines := []string{
			`{"class":"A","jid":"1"}`, `not json`, `{"class":"","jid":"x"}`, `{"args":[]}`, `{"class":"A","args":{}}`,
			`{"class":"A","at":"soon"}`, `{"class":"A"} {}`, `[]`, `{"class":"A\u0000"}`, `{"class":"A","queue":"bad\n"}`, `{"class":"A","jid":"2"}`,
			`{"class":"A","retry":"often"}`, `{"class":"A","args":["` + strings.Repeat("x", job.DefaultPayloadLimit) + `"]}`,
			strings.Repeat(" ", maxLine+1), `{"class":"A","dead":1}`, `{"class":"A","jid":"3"}`,
		}
		answer := h.invoke(strings.Join(lines, "\n"), "push", "--file", "-")
		require.Equal(t, exitFailure, answer.code)
		require.Equal(t, "1\n2\n3\n", answer.out)
		for i, line := range lines {
			refused := strings.Contains(answer.errs, fmt.Sprintf("line %d: refused: ", i+1))
			require.Equal(t, !strings.Contains(line, `"jid":"`) || i == 2, refused, "line %d:\n%s", i+1, answer.errs)
		}
		require.Contains(t, answer.errs, "3 queued, 13 refused")
		require.Equal(t, int64(3), h.do("LLEN", h.key("queue:default")))
	})
	t.Run("many_lines_keep_their_order", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		const jobs = 3000
		var file strings.Builder
		for i := range jobs {
			fmt.Fprintf(&file, `{"class":"A","jid":"%d","queue":"%s"}`+"\n", i, []string{"a", "b\\u00e9"}[i%2])
			if i%700 == 0 {
				file.WriteString(`{"class":""}` + "\n")
			}
		}
		answer := h.invoke(file.String(), "push", "--file", "-", "--json")
		require.Equal(t, exitFailure, answer.code)
		out := bufio.NewScanner(strings.NewReader(answer.out))
		next := 0
		for ; out.Scan(); next++ {
			var receipt struct {
				JID, Status string
				Line        int
			}
			require.NoError(t, json.Unmarshal(out.Bytes(), &receipt))
			require.Equal(t, fmt.Sprint(next), receipt.JID)
			require.Equal(t, next+1+(next+699)/700, receipt.Line)
			require.Equal(t, "queued", receipt.Status)
		}
		require.Equal(t, jobs, next)
		require.Equal(t, int64(jobs/2), h.do("LLEN", h.key("queue:a")))
		oldest, err := job.Parse(h.do("LINDEX", h.key("queue:a"), "-1").(string))
		require.NoError(t, err)
		require.Equal(t, "0", oldest.JID())
	})
}

func TestPushWithPositions(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	require.Zero(t, h.invoke("", "push", "A", "--wal", "main=16/B374D848", "--wal", "ci=0/1").code)
	require.Zero(t, h.invoke(`{"class":"A","wal_locations":{"main":"9/0"}}`, "push", "--file", "-").code)
	jobs, _ := h.do("LRANGE", h.key("queue:default"), "0", "-1").([]any)
	require.Len(t, jobs, 2)
	require.Contains(t, jobs[1], `"wal_locations":{"ci":"0/1","main":"16/B374D848"}`)
	require.Contains(t, jobs[0], `"wal_locations":{"main":"9/0"}`)
	for _, words := range [][]string{{"A", "--wal", "main=16"}, {"A", "--wal", "a b=0/1"}, {"--file", "-", "--wal", "main=0/1"}} {
		answer := h.invoke("", append([]string{"push"}, words...)...)
		require.Equal(t, 2, answer.code, "%q", words)
		require.Contains(t, answer.errs, "--wal", "%q", words)
	}
	require.Equal(t, 1, h.invoke(`{"class":"A","wal_locations":["9/0"]}`, "push", "--file", "-").code)
	require.Zero(t, h.invoke(`{"class":"A","wal_locations":[]}`, "push", "--file", "-").code, "Ruby's none")
	require.Zero(t, h.invoke(`{"class":"A","wal_locations":[ ],"args":[1]}`, "push", "--file", "-", "--unique", "until_executed").code)
}

// A negative number is an argument where one may stand, and elsewhere what it is there.
func TestNegativeNumbersAreNotFlags(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	require.Zero(t, h.invoke("", "push", "A", "-1", "-q", "low", "-2.5").code)
	job := h.payloads("LRANGE", h.key("queue:low"), "0", "-1")[0]
	require.Contains(t, job, `"args":[-1,-2.5]`)
	require.Equal(t, []string{"push", "A", "--", "--in", escaped + "-3"}, escapeNegatives(newRoot(), []string{"push", "A", "--", "--in", "-3"}))
	for want, args := range map[string][]string{
		"--in -5s: it must not be negative":         {"A", "--in", "-5s"},
		"--unique: a lock for -1s holds":            {"A", "--unique", "until_executed", "--unique-ttl", "-1s"},
		"--repeat-for -2s: it must not be negative": {"A", "--repeat-for", "-2s"},
		`--retry "-5": it must be`:                  {"A", "--retry", "-5"},
		`--at "-5": it must be an instant`:          {"A", "--at", "-5"},
		`invalid argument "-1x"`:                    {"A", "--in", "-1x"},
	} {
		answer := h.invoke("", append([]string{"push"}, args...)...)
		require.Equal(t, exitUsage, answer.code, want)
		require.Contains(t, answer.errs, want)
		require.NotContains(t, answer.errs, "x00")
	}
}
