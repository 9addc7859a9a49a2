package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver/drivertest"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// said is what a command line answered.
type said struct {
	code      int
	out, errs string
}

// invoke runs a command line in this process.
func invoke(args ...string) said {
	var out, errs bytes.Buffer
	code := run(args, &out, &errs)
	return said{code, out.String(), errs.String()}
}

// house is a place of a test's own in the shared Redis.
type house struct {
	t      testing.TB
	server *drivertest.Server
	prefix string
}

func newHouse(t testing.TB) *house {
	t.Helper()
	return &house{t: t, server: drivertest.Redis(t), prefix: strings.TrimSuffix(drivertest.Prefix(t), ":")}
}

func (h *house) invoke(args ...string) said {
	return invoke(append(args, "--redis", h.server.URL(), "--prefix", h.prefix)...)
}

// key is a key's whole name.
func (h *house) key(name string) string { return h.prefix + ":" + name }

func (h *house) do(words ...string) any {
	h.t.Helper()
	value, err := h.server.Do(h.t.Context(), words...)
	require.NoError(h.t, err)
	return value
}

// payloads are the elements of a list, or the members of a sorted set.
func (h *house) payloads(words ...string) []string {
	h.t.Helper()
	var texts []string
	for _, part := range h.do(words...).([]any) {
		texts = append(texts, part.(string))
	}
	return texts
}

// held is a job of a queue.
func held(queue string, n, interrupted int) string {
	return fmt.Sprintf(`{"class":"Held","args":[%d],"jid":"j%d","queue":%q,"interrupted_count":%d,"unknown":1.0}`, n, n, queue, interrupted)
}

// beats has a Ruby process send a heartbeat that lasts as long as GitLab's.
func (h *house) beats(process string) {
	h.t.Helper()
	h.do("SET", h.key("reliable-fetcher-heartbeat-"+strings.ReplaceAll(process, ":", "-")), "1", "EX", "60")
}

// takes has a Ruby process take the next jobs of a queue, as GitLab's reliable fetch does.
func (h *house) takes(queue, process string, jobs int) {
	h.t.Helper()
	for range jobs {
		h.do("RPOPLPUSH", h.key("queue:"+queue), h.key("working:queue:"+queue+":"+process))
	}
}

// What dead Ruby processes hold goes to the heads of its queues, in order, and runs next; nothing of a living
// one moves. Names are those of both versions of the gem, and of hosts and queues that its cleaner misreads.
func TestReturnRecoversWhatDeadRubyProcessesHold(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			dead := map[string]string{ // by queue; each holds three of four jobs
				"mail":  "web-1:100:abcdef012345",
				"old":   "web-1:100", // before processes had a nonce
				"a:b":   "web.example.com:100:abcdef012345",
				"v6":    "fe80::1:7:abcdef012345",
				"x:1:2": "h:1",
			}
			alive := map[string]string{"live": "web-2:100:abcdef012345", "live6": "fe80::2:7:abcdef012345", "l:i": "h:12:34", "leg": "web-2:9"}
			for _, held := range []map[string]string{dead, alive} {
				for queue, process := range held {
					h.fill(queue, 4)
					h.takes(queue, process, 3)
				}
			}
			for _, process := range alive {
				h.beats(process)
			}
			h.do("RPUSH", h.key("working:queue:nobody"), "x") // no process
			h.do("SET", h.key("working:queue:q:h:1"), "no list")

			look := h.invoke("--dry-run", "--client", client)
			require.Zero(t, look.code, look.errs)
			require.Contains(t, look.out, "15 jobs would be returned")
			require.Regexp(t, `(?m)^mail +web-1:100:abcdef012345 +lapsed +3$`, look.out)
			require.Regexp(t, `(?m)^live +web-2:100:abcdef012345 +alive +3$`, look.out)
			require.Equal(t, int64(3), h.do("LLEN", h.key("working:queue:mail:web-1:100:abcdef012345")), "a dry run changes nothing")

			done := h.invoke("--doubt", "10ms", "--json", "--client", client)
			require.Zero(t, done.code, done.errs)
			require.JSONEq(t, `{"recovered":15,"dead":0,"lists":5,"alive":4,"unclear":1,"held":12,"interrupted":0}`, done.out)
			require.Contains(t, done.errs, "15 jobs of processes without a heartbeat")
			for queue, process := range dead {
				require.Zero(t, h.do("EXISTS", h.key("working:queue:"+queue+":"+process)))
				want := []string{held(queue, 3, 0), held(queue, 2, 1), held(queue, 1, 1), held(queue, 0, 1)} // taken from the end
				require.Equal(t, want, h.payloads("LRANGE", h.key("queue:"+queue), "0", "-1"), queue)
				require.Equal(t, int64(1), h.do("SISMEMBER", h.key("queues"), queue))
			}
			for queue, process := range alive {
				require.Equal(t, int64(3), h.do("LLEN", h.key("working:queue:"+queue+":"+process)), queue)
				require.Equal(t, int64(1), h.do("LLEN", h.key("queue:"+queue)))
			}
			require.Contains(t, h.invoke("--doubt", "0").out, "0 recovered, 0 of them")
		})
	}
}

// Right after a kill the heartbeat is still there: the command says that it has left the jobs, and for how long.
func TestReturnSaysWhatItMustWaitFor(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const process = "web-1:100:abcdef012345"
	h.fill("mail", 3)
	h.takes("mail", process, 3)
	h.beats(process) // and is killed
	for range 2 {
		done := h.invoke("--doubt", "0")
		require.Zero(t, done.code, done.errs)
		require.Contains(t, done.out, "0 recovered")
		require.Contains(t, done.errs, "3 jobs are left to processes with a heartbeat. That of a killed process expires within 1m0s: run this again then")
	}
	h.do("DEL", h.key("reliable-fetcher-heartbeat-"+strings.ReplaceAll(process, ":", "-")))
	done := h.invoke("--doubt", "0")
	require.Contains(t, done.out, "3 recovered")
	require.NotContains(t, done.errs, "run this again")
}

// fill gives a queue so many jobs; job 0 is the next one.
func (h *house) fill(queue string, jobs int) {
	h.t.Helper()
	for n := range jobs {
		h.do("LPUSH", h.key("queue:"+queue), held(queue, n, 0))
	}
}

// A job that was interrupted too often, one that cannot be read and one that is too large go to the dead set
// with a reason; several pages keep their order.
func TestReturnKillsWhatRubyInterruptedTooOften(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	list := h.key("working:queue:mail:web-1:100:abcdef012345")
	for n := range 600 {
		h.do("LPUSH", list, held("mail", n, 0))
	}
	large := `{"class":"Held","jid":"large","queue":"mail","args":["` + strings.Repeat("x", 3<<20) + `"]}`
	h.do("LPUSH", list, held("mail", 600, 2), "garbage", large)
	h.do("ZADD", h.key("interrupted"), "1", held("mail", 601, 3))

	done := h.invoke("--doubt", "0", "--json")
	require.Zero(t, done.code, done.errs)
	require.JSONEq(t, `{"recovered":603,"dead":3,"lists":1,"alive":0,"unclear":0,"held":0,"interrupted":1}`, done.out)
	require.Contains(t, done.errs, "too many interruptions in Ruby processes")
	require.Contains(t, done.errs, "unreadable payload")
	require.Contains(t, done.errs, "payload too large")
	waiting := h.payloads("LRANGE", h.key("queue:mail"), "0", "-1")
	require.Len(t, waiting, 600)
	for n, payload := range waiting {
		require.Equal(t, held("mail", 599-n, 1), payload)
	}
	dead := h.payloads("ZRANGE", h.key("dead"), "0", "-1")
	require.Len(t, dead, 3)
	require.Contains(t, strings.Join(dead, "\n"), "Ruby processes died or stopped 3 times while they ran it")
	require.Equal(t, "3", h.do("GET", h.key("stat:failed")), "none dies without a count")
	require.Equal(t, int64(1), h.do("ZCARD", h.key("interrupted")), "GitLab's own set stays as it is")

	h.do("LPUSH", list, held("mail", 700, 8))
	done = h.invoke("--doubt", "0", "--interruptions", "-1")
	require.Contains(t, done.out, "1 recovered, 0 of them moved to the dead set")
	require.Equal(t, held("mail", 700, 9), h.do("LINDEX", h.key("queue:mail"), "-1"), "it runs next")
}

// A list whose queue is something else stays as it is, and does not stop the others.
func TestReturnSaysWhatItCannotMove(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, queue := range []string{"good", "wrong"} {
		h.fill(queue, 1)
		h.takes(queue, "h:1:aa", 1)
	}
	h.do("SET", h.key("queue:wrong"), "no list")
	done := h.invoke("--doubt", "0")
	require.Equal(t, exitFailure, done.code)
	require.Contains(t, done.errs, "WRONGTYPE")
	require.Equal(t, int64(1), h.do("LLEN", h.key("queue:good")))
	require.Equal(t, int64(1), h.do("LLEN", h.key("working:queue:wrong:h:1:aa")))
}

func TestAWrongCommandLineIsRefused(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"x", "--to-ruby", "--doubt -1s", "--interruptions 0", "--dead-limit 0", "--dead-for 0s", "--client x", "--redis="} {
		answer := invoke(strings.Fields(words)...)
		require.Equal(t, exitUsage, answer.code, words)
		require.Equal(t, 1, strings.Count(answer.errs, "\n"), answer.errs)
	}
	help := invoke("--help")
	require.Zero(t, help.code)
	require.Contains(t, help.out, "--dry-run")
}

// An error names the server, and no password.
func TestAnErrorShowsNoPassword(t *testing.T) {
	t.Parallel()
	answer := invoke("--redis", "redis://user:S3cr3tCanary@127.0.0.1:1/0", "--timeout", "20s")
	require.Equal(t, exitFailure, answer.code)
	require.Contains(t, answer.errs, "is Redis running there?")
	require.NotContains(t, answer.errs, "S3cr3tCanary")
	require.NotContains(t, invoke("redis://user:S3cr3tCanary@127.0.0.1:1/0").errs, "S3cr3tCanary")
}

// Two commands and the gem's own cleaner recover one list at the same time: each job moves once.
func TestReturnSharesWithTheCleaner(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	list, queue := h.key("working:queue:mail:h:1:aa"), h.key("queue:mail")
	var want []string
	for n := range 2000 {
		h.do("LPUSH", list, held("mail", n, 0))
		want = append(want, fmt.Sprintf(`"jid":"j%d"`, n))
	}
	answers := make(chan said, 2)
	for range cap(answers) {
		go func() { answers <- h.invoke("--doubt", "0") }()
	}
	for {
		taken, ok := h.do("RPOP", list).(string)
		if !ok {
			break
		}
		h.do("LPUSH", queue, taken)
	}
	for range cap(answers) {
		answer := <-answers
		require.Zero(t, answer.code, answer.errs)
	}
	var found []string
	for _, payload := range h.payloads("LRANGE", queue, "0", "-1") {
		at := strings.Index(payload, `"jid":`)
		found = append(found, payload[at:at+strings.Index(payload[at:], ",")])
	}
	require.ElementsMatch(t, want, found)
}
