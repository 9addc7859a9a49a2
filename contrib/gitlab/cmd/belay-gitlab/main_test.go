package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// output is the exit status of a command line, and what it printed.
type output struct {
	code      int
	out, errs string
}

// invoke runs a command line in this process.
func invoke(args ...string) output {
	var out, errs bytes.Buffer
	code := run(args, &out, &errs)
	return output{code, out.String(), errs.String()}
}

// keyspace is a test's own keyspace in the shared Redis.
type keyspace struct {
	t      testing.TB
	server *drivertest.Server
	prefix string // with its colon
}

func newKeyspace(t testing.TB) *keyspace {
	t.Helper()
	return &keyspace{t: t, server: drivertest.Redis(t), prefix: drivertest.Prefix(t)}
}

func (k *keyspace) invoke(args ...string) output {
	return invoke(append(args, "--redis", k.server.URL(), "--prefix", strings.TrimSuffix(k.prefix, ":"))...)
}

// key returns the whole name of a key.
func (k *keyspace) key(name string) string { return k.prefix + name }

func (k *keyspace) do(words ...string) any {
	k.t.Helper()
	value, err := k.server.Do(k.t.Context(), words...)
	require.NoError(k.t, err)
	return value
}

// payloads returns the elements of a list, or the members of a sorted set.
func (k *keyspace) payloads(words ...string) []string {
	k.t.Helper()
	var texts []string
	for _, part := range k.do(words...).([]any) {
		texts = append(texts, part.(string))
	}
	return texts
}

// held returns the payload of a job of a queue.
func held(queue string, n, interrupted int) string {
	return fmt.Sprintf(`{"class":"Held","args":[%d],"jid":"j%d","queue":%q,"interrupted_count":%d,"unknown":1.0}`, n, n, queue, interrupted)
}

// beats writes the heartbeat of a Ruby process, with GitLab's TTL.
func (k *keyspace) beats(process string) {
	k.t.Helper()
	k.do("SET", k.key("reliable-fetcher-heartbeat-"+strings.ReplaceAll(process, ":", "-")), "1", "EX", "60")
}

// takes moves the next jobs of a queue to the working list of a Ruby process, as GitLab's reliable fetch does.
func (k *keyspace) takes(queue, process string, jobs int) {
	k.t.Helper()
	for range jobs {
		k.do("RPOPLPUSH", k.key("queue:"+queue), k.key("working:queue:"+queue+":"+process))
	}
}

// The jobs of dead Ruby processes go to the heads of their queues, in order, and run next. The jobs of living
// processes stay. The names are of both versions of the gem, and of hosts and queues that its cleaner misreads.
func TestReturnRecoversWhatDeadRubyProcessesHold(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			k := newKeyspace(t)
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
					k.fill(queue, 4)
					k.takes(queue, process, 3)
				}
			}
			for _, process := range alive {
				k.beats(process)
			}
			k.do("RPUSH", k.key("working:queue:nobody"), "x") // no process
			k.do("SET", k.key("working:queue:q:h:1"), "no list")

			look := k.invoke("--dry-run", "--client", client)
			require.Zero(t, look.code, look.errs)
			require.Contains(t, look.out, "15 jobs would be returned")
			require.Regexp(t, `(?m)^mail +web-1:100:abcdef012345 +lapsed +3$`, look.out)
			require.Regexp(t, `(?m)^live +web-2:100:abcdef012345 +alive +3$`, look.out)
			require.Equal(t, int64(3), k.do("LLEN", k.key("working:queue:mail:web-1:100:abcdef012345")), "a dry run changes nothing")

			done := k.invoke("--doubt", "10ms", "--json", "--client", client)
			require.Zero(t, done.code, done.errs)
			require.JSONEq(t, `{"recovered":15,"dead":0,"lists":5,"alive":4,"unclear":1,"held":12,"interrupted":0}`, done.out)
			require.Contains(t, done.errs, "15 jobs of processes without a heartbeat")
			for queue, process := range dead {
				require.Zero(t, k.do("EXISTS", k.key("working:queue:"+queue+":"+process)))
				want := []string{held(queue, 3, 0), held(queue, 2, 1), held(queue, 1, 1), held(queue, 0, 1)} // taken from the end
				require.Equal(t, want, k.payloads("LRANGE", k.key("queue:"+queue), "0", "-1"), queue)
				require.Equal(t, int64(1), k.do("SISMEMBER", k.key("queues"), queue))
			}
			for queue, process := range alive {
				require.Equal(t, int64(3), k.do("LLEN", k.key("working:queue:"+queue+":"+process)), queue)
				require.Equal(t, int64(1), k.do("LLEN", k.key("queue:"+queue)))
			}
			require.Contains(t, k.invoke("--doubt", "0").out, "0 recovered, 0 of them")
		})
	}
}

// Right after a kill the heartbeat still exists: the command reports that it has left the jobs, and for how
// long.
func TestReturnSaysWhatItMustWaitFor(t *testing.T) {
	t.Parallel()
	k := newKeyspace(t)
	const process = "web-1:100:abcdef012345"
	k.fill("mail", 3)
	k.takes("mail", process, 3)
	k.beats(process) // and is killed
	for range 2 {
		done := k.invoke("--doubt", "0")
		require.Zero(t, done.code, done.errs)
		require.Contains(t, done.out, "0 recovered")
		require.Contains(t, done.errs, "3 jobs are left to processes with a heartbeat. That of a killed process expires within 1m0s: run this again then")
	}
	k.do("DEL", k.key("reliable-fetcher-heartbeat-"+strings.ReplaceAll(process, ":", "-")))
	done := k.invoke("--doubt", "0")
	require.Contains(t, done.out, "3 recovered")
	require.NotContains(t, done.errs, "run this again")
}

// fill pushes this number of jobs to a queue; job 0 is the next to run.
func (k *keyspace) fill(queue string, jobs int) {
	k.t.Helper()
	for n := range jobs {
		k.do("LPUSH", k.key("queue:"+queue), held(queue, n, 0))
	}
}

// A job that was interrupted too often, an unreadable job and one that is too large go to the dead set, each
// with a reason. The jobs of several pages keep their order.
func TestReturnKillsWhatRubyInterruptedTooOften(t *testing.T) {
	t.Parallel()
	k := newKeyspace(t)
	list := k.key("working:queue:mail:web-1:100:abcdef012345")
	for n := range 600 {
		k.do("LPUSH", list, held("mail", n, 0))
	}
	large := `{"class":"Held","jid":"large","queue":"mail","args":["` + strings.Repeat("x", 3<<20) + `"]}`
	k.do("LPUSH", list, held("mail", 600, 2), "garbage", large)
	k.do("ZADD", k.key("interrupted"), "1", held("mail", 601, 3))

	done := k.invoke("--doubt", "0", "--json")
	require.Zero(t, done.code, done.errs)
	require.JSONEq(t, `{"recovered":603,"dead":3,"lists":1,"alive":0,"unclear":0,"held":0,"interrupted":1}`, done.out)
	require.Contains(t, done.errs, "too many interruptions in Ruby processes")
	require.Contains(t, done.errs, "unreadable payload")
	require.Contains(t, done.errs, "payload too large")
	waiting := k.payloads("LRANGE", k.key("queue:mail"), "0", "-1")
	require.Len(t, waiting, 600)
	for n, payload := range waiting {
		require.Equal(t, held("mail", 599-n, 1), payload)
	}
	dead := k.payloads("ZRANGE", k.key("dead"), "0", "-1")
	require.Len(t, dead, 3)
	require.Contains(t, strings.Join(dead, "\n"), "Ruby processes died or stopped 3 times while they ran it")
	require.Equal(t, "3", k.do("GET", k.key("stat:failed")), "each dead job is counted")
	require.Equal(t, int64(1), k.do("ZCARD", k.key("interrupted")), "GitLab's own set stays as it is")

	k.do("LPUSH", list, held("mail", 700, 8))
	done = k.invoke("--doubt", "0", "--interruptions", "-1")
	require.Contains(t, done.out, "1 recovered, 0 of them moved to the dead set")
	require.Equal(t, held("mail", 700, 9), k.do("LINDEX", k.key("queue:mail"), "-1"), "it runs next")
}

// A list whose queue key has another type stays as it is, and does not stop the recovery of the others.
func TestReturnSaysWhatItCannotMove(t *testing.T) {
	t.Parallel()
	k := newKeyspace(t)
	for _, queue := range []string{"good", "wrong"} {
		k.fill(queue, 1)
		k.takes(queue, "h:1:aa", 1)
	}
	k.do("SET", k.key("queue:wrong"), "no list")
	done := k.invoke("--doubt", "0")
	require.Equal(t, exitFailure, done.code)
	require.Contains(t, done.errs, "WRONGTYPE")
	require.Equal(t, int64(1), k.do("LLEN", k.key("queue:good")))
	require.Equal(t, int64(1), k.do("LLEN", k.key("working:queue:wrong:h:1:aa")))
}

func TestAWrongCommandLineIsRefused(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"x", "--to-ruby", "--doubt -1s", "--interruptions 0", "--dead-limit 0", "--dead-for 0s", "--client x", "--redis="} {
		result := invoke(strings.Fields(words)...)
		require.Equal(t, exitUsage, result.code, words)
		require.Equal(t, 1, strings.Count(result.errs, "\n"), result.errs)
	}
	help := invoke("--help")
	require.Zero(t, help.code)
	require.Contains(t, help.out, "--dry-run")
}

// An error names the server, and no password.
func TestAnErrorShowsNoPassword(t *testing.T) {
	t.Parallel()
	result := invoke("--redis", "redis://user:S3cr3tCanary@127.0.0.1:1/0", "--timeout", "20s")
	require.Equal(t, exitFailure, result.code)
	require.Contains(t, result.errs, "is Redis running there?")
	require.NotContains(t, result.errs, "S3cr3tCanary")
	require.NotContains(t, invoke("redis://user:S3cr3tCanary@127.0.0.1:1/0").errs, "S3cr3tCanary")
}

// Two commands and the gem's own cleaner recover one list at the same time: each job moves once.
func TestReturnSharesWithTheCleaner(t *testing.T) {
	t.Parallel()
	k := newKeyspace(t)
	list, queue := k.key("working:queue:mail:h:1:aa"), k.key("queue:mail")
	var want []string
	for n := range 2000 {
		k.do("LPUSH", list, held("mail", n, 0))
		want = append(want, fmt.Sprintf(`"jid":"j%d"`, n))
	}
	results := make(chan output, 2)
	for range cap(results) {
		go func() { results <- k.invoke("--doubt", "0") }()
	}
	for {
		taken, ok := k.do("RPOP", list).(string)
		if !ok {
			break
		}
		k.do("LPUSH", queue, taken)
	}
	for range cap(results) {
		result := <-results
		require.Zero(t, result.code, result.errs)
	}
	var found []string
	for _, payload := range k.payloads("LRANGE", queue, "0", "-1") {
		at := strings.Index(payload, `"jid":`)
		found = append(found, payload[at:at+strings.Index(payload[at:], ",")])
	}
	require.ElementsMatch(t, want, found)
}
