package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/job"
)

// plantDead are the options for tests that add dead jobs themselves.
var plantDead = []oracle.Option{oracle.Acts(), oracle.Allow(oracle.Nowhere, oracle.Dead), oracle.Allow(oracle.Nowhere, oracle.Retry)}

// plant sends commands in pipelines, so that many jobs are soon there.
func (s *site) plant(commands [][]string) {
	s.t.Helper()
	client := s.instrument()
	for first := 0; first < len(commands); first += 500 {
		var calls []driver.Call
		for _, words := range commands[first:min(first+500, len(commands))] {
			calls = append(calls, driver.Command(words...))
		}
		for _, reply := range client.Do(s.t.Context(), calls...) {
			require.NoError(s.t, reply.Err)
		}
	}
}

// instrument is a client of the test's own, past any proxy and with all permissions, of the kind that the site's
// programs use.
func (s *site) instrument() driver.Client {
	s.t.Helper()
	client, err := openers[s.client](s.server.URL())
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// A contest is a job, and what two operators want to do with it at the same time, while a worker may have it,
// too.
type contest struct {
	jid     string
	home    inspect.Home
	actions [2]inspect.Action
	moved   [2]int
}

// Of two operators and the fleet, which reach for the same job, one gets it, and its command says so.
func TestOneGetsTheJob(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		t.Parallel()
		const contests = 1000
		book := newLedger(t)
		s.work("-q", "default", "-q", "other", "-c", "3", "--poll", "1ms", "--exec", book.exec("Contested"))
		operators := inspect.New(s.clientOf(check.RoleOperator))
		all := make([]*contest, contests)
		var next atomic.Int64
		var loops sync.WaitGroup
		for range 6 {
			loops.Go(func() {
				for n := int(next.Add(1)) - 1; n < contests; n = int(next.Add(1)) - 1 {
					all[n] = s.contest(operators, n)
				}
			})
		}
		loops.Wait()
		s.account(all, book)
	}, plantDead...)
}

// contest holds one contest. Every second job is one that the fleet wants at once, too.
func (s *site) contest(operators *inspect.Inspector, n int) *contest {
	c := &contest{jid: newJID()}
	actions := []inspect.Action{inspect.Retry, inspect.Kill, inspect.Delete, inspect.Reschedule}
	score := strconv.FormatInt(time.Now().Unix()+int64(n%2)*3600, 10)
	// A run takes 20 ms, so that jobs wait, and an operator has a chance against an idle fleet.
	payload := rubyPayload("Contested", "default", jsonArgs(n, 20), c.jid)
	failed := strings.TrimSuffix(payload, "}") + `,"retry_count":1,"interrupted_count":1,"failed_at":1700000000.5,"error_class":"E"}`
	words := []string{"ZADD", "", score, failed}
	switch rand.IntN(4) {
	case 0:
		c.home, words[1] = inspect.Retries(), s.keys.Retry()
	case 1:
		c.home, words[1], words[3] = inspect.Scheduled(), s.keys.Schedule(), payload
	case 2:
		c.home, words[1], actions = inspect.Dead(), s.keys.Dead(), []inspect.Action{inspect.Retry, inspect.Delete}
	default:
		c.home, actions = inspect.Waiting("default"), []inspect.Action{inspect.Kill, inspect.Delete, inspect.Move}
		words = []string{"LPUSH", s.keys.Queue("default"), payload}
	}
	s.do(words...)
	var pair sync.WaitGroup
	for i := range c.actions {
		c.actions[i] = actions[rand.IntN(len(actions))]
		pair.Go(func() {
			counts, err := operators.Act(s.t.Context(), inspect.Task{
				Home: c.home, Action: c.actions[i], Selection: inspect.Selection{IDs: []string{c.jid}},
				To: "other", At: time.Unix(1_700_000_000, 0), // at once
			}, nil)
			if err != nil || counts.Moved+len(counts.Missing) != 1 {
				s.t.Errorf("%s in %s: %+v, %v", c.actions[i], c.home, counts, err)
			}
			c.moved[i] = counts.Moved
		})
	}
	pair.Wait()
	return c
}

// account holds that each job is where its winner sent it, and nowhere else.
func (s *site) account(all []*contest, book *ledger) {
	s.t.Helper()
	winners := make(map[inspect.Action]int)
	fate := make(map[string]inspect.Action) // empty: the fleet won
	for _, c := range all {
		fate[c.jid] = ""
		got := 0
		for i, moved := range c.moved {
			// A job that waits for another time may still be had by others.
			again := c.actions[i] == inspect.Reschedule
			if moved == 1 && (!again || fate[c.jid] == "") {
				fate[c.jid] = c.actions[i]
			}
			if !again {
				got += moved
			}
		}
		require.LessOrEqual(s.t, got, 1, "both got %s: %+v", c.jid, c)
		if c.home == inspect.Dead() {
			require.NotEmpty(s.t, fate[c.jid], "no worker takes the dead, so an operator got %s: %+v", c.jid, c)
		}
		winners[fate[c.jid]]++
	}
	runs := []inspect.Action{"", inspect.Retry, inspect.Reschedule, inspect.Move}
	toRun := 0
	for _, who := range runs {
		toRun += winners[who]
	}
	eventually(s.t, "all that was not ended to run", func() bool { return s.text(s.keys.Processed()) == strconv.Itoa(toRun) || s.t.Failed() })
	s.t.Logf("who got the jobs: %v", winners)
	for _, who := range append(runs, inspect.Kill, inspect.Delete) {
		require.Positive(s.t, winners[who], "%q never won", who)
	}
	ran := make(map[string]int)
	for _, mark := range book.of("end", "") {
		ran[mark.JID]++
	}
	killed := make(map[string]int)
	for _, payload := range s.set(s.keys.Dead()) {
		parsed, err := job.Parse(payload)
		require.NoError(s.t, err)
		killed[parsed.JID()]++
	}
	for jid, who := range fate {
		require.Equal(s.t, count(who == inspect.Kill), killed[jid], "%s, which went to %q", jid, who)
		require.Equal(s.t, count(slices.Contains(runs, who)), ran[jid], "%s, which went to %q", jid, who)
	}
	require.Empty(s.t, s.set(s.keys.Retry()))
	require.Empty(s.t, s.set(s.keys.Schedule()))
	require.Empty(s.t, s.list(s.keys.Queue("default")))
	require.Empty(s.t, s.list(s.keys.Queue("other")))
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// An operator's command may be killed at any moment and said again: each job is in its new place once.
func TestRetryAllSurvivesBeingKilled(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		const dead = 20_000
		commands := make([][]string, dead)
		for n := range commands {
			commands[n] = []string{"ZADD", s.keys.Dead(), strconv.Itoa(1_700_000_000 + n/7),
				fmt.Sprintf(`{"class":"A","jid":"%d","queue":"q%d","args":[%d],"retry_count":25,"retry":true}`, n, n%3, n)}
		}
		s.plant(commands)
		kills, rounds := 0, 0
		for {
			rounds++
			require.Less(t, rounds, 1000)
			if s.retryAllKilled(5*time.Millisecond + time.Duration(rounds)*2*time.Millisecond + rand.N(20*time.Millisecond)) {
				break
			}
			kills++
		}
		t.Logf("%d kills", kills)
		require.Greater(t, kills, 2)
		require.Empty(t, s.set(s.keys.Dead()))
		seen := make(map[string]int)
		for queue := range 3 {
			for _, payload := range s.list(s.keys.Queue("q" + strconv.Itoa(queue))) {
				parsed, err := job.Parse(payload)
				require.NoError(t, err)
				seen[parsed.JID()]++
			}
		}
		require.Len(t, seen, dead)
		for jid, times := range seen {
			require.Equal(t, 1, times, "job %s", jid)
		}
	}, plantDead...)
}

// retryAllKilled runs the command and kills it after a while, and says whether it came to its end before.
func (s *site) retryAllKilled(after time.Duration) (ended bool) {
	s.t.Helper()
	cmd := exec.Command(belayPath, "dead", "retry", "--all", "--redis", s.urlOf(check.RoleOperator), "--prefix", s.prefix, "--client", s.client)
	require.NoError(s.t, cmd.Start())
	kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	err := cmd.Wait()
	if err != nil {
		require.Equal(s.t, -1, cmd.ProcessState.ExitCode(), "it failed by itself: %v", err)
	}
	return err == nil
}

// A queue of any length is cleared in steps that keep no other client waiting.
func TestAQueueIsClearedInBoundedSteps(t *testing.T) {
	t.Parallel()
	s := ordinarySite(t, oracle.Acts())
	const jobs, page = 100_000, 256
	var commands [][]string
	for first := 0; first < jobs; first += 100 {
		words := []string{"LPUSH", s.keys.Queue("mail")}
		for n := first; n < first+100; n++ {
			words = append(words, fmt.Sprintf(`{"class":"A","jid":"%d","queue":"mail","args":[]}`, n))
		}
		commands = append(commands, words)
	}
	s.plant(commands)
	s.do("CONFIG", "RESETSTAT")
	out, errs, code := s.belay("queues", "clear", "mail", "--yes", "--json")
	require.Zero(t, code, errs)
	var counts inspect.ActCounts
	require.NoError(t, json.Unmarshal([]byte(out), &counts))
	require.Equal(t, inspect.ActCounts{Moved: jobs}, counts)
	require.Zero(t, s.do("LLEN", s.keys.Queue("mail")))
	require.Equal(t, jobs, s.calls("lrem"), "each was removed by its bytes")
	require.GreaterOrEqual(t, s.calls("evalsha"), 2*(jobs/page), "a page of them is read, and a page is moved")
	require.Less(t, s.calls("evalsha"), 8*(jobs/page), "or some parts of it, so that no search takes long")
}

// calls is how often a command was called since the statistics were reset.
func (s *site) calls(command string) int {
	s.t.Helper()
	info, _ := s.do("INFO", "commandstats").(string)
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			number, _, _ := strings.Cut(rest, ",")
			n, err := strconv.Atoi(number)
			require.NoError(s.t, err)
			return n
		}
	}
	return 0
}

// A job that died because it crashed its workers is, once an operator retries it, a job like any other: its
// next crash is its first, and it does not run alone.
func TestARetriedDeadJobCountsItsCrashesAnew(t *testing.T) {
	t.Parallel()
	s, book := ordinarySite(t, plantDead...), newLedger(t)
	once := filepath.Join(t.TempDir(), "once")
	exec := fmt.Sprintf(`Killer=sh -c 'if mkdir %s 2>/dev/null; then kill -9 $PPID; sleep 60; fi'`, once)
	jid := newJID()
	dead := strings.TrimSuffix(rubyPayload("Killer", "default", "[]", jid), "}") +
		`,"interrupted_count":3,"interrupted_at":1700000000.5,"error_class":"Belay::Interrupted","error_message":"x"}`
	s.do("ZADD", s.keys.Dead(), "1700000000", dead)
	long := s.push("HardWorker", "default", jsonArgs(1, 3000))
	fleet := s.supervise(1, append(fast, "-c", "3", "--exec", book.exec("HardWorker"), "--exec", exec)...)
	book.awaitStart(long, 1)
	out, errs, code := s.belay("dead", "retry", jid)
	require.Equal(t, "1 retried\n", out)
	require.Zero(t, code, errs)
	// It kills the worker although a job is beside it, so it did not run alone; recovered, it is not
	// quarantined, and ends well.
	eventually(t, "both to end", func() bool { return s.text(s.keys.Processed()) == "2" })
	fleet.end()
	require.Equal(t, 1, fleet.deaths())
	require.Empty(t, s.set(s.keys.Dead()))
	require.Empty(t, s.text(s.keys.Failed()))
}

// Queues and processes obey an operator at the command line.
func TestPauseQuietAndStop(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		book := newLedger(t)
		command := func(words ...string) string {
			out, errs, code := s.belay(words...)
			require.Zero(t, code, "%v: %s", words, errs)
			return out
		}
		command("queues", "pause", "default")
		held := s.push("HardWorker", "default", jsonArgs(1, 0))
		worker := s.work(append(fast, "-q", "default", "-q", "other", "--exec", book.exec("HardWorker"))...)
		passed := s.push("HardWorker", "other", jsonArgs(2, 0))
		book.awaitEnd(passed)
		require.Empty(t, book.of("start", held), "its queue is paused")
		command("queues", "resume", "default")
		book.awaitEnd(held)

		command("processes", "quiet", worker.identities()[0])
		worker.awaitLog("remote control")
		eventually(t, "the worker to say that it is quiet", func() bool { return strings.Contains(command("processes"), "alive, quiet") })
		waits := s.push("HardWorker", "other", jsonArgs(3, 0))
		require.Contains(t, command("queues", "list", "other"), waits)
		command("processes", "stop", "--all", "--yes")
		require.Zero(t, worker.wait(), worker.log())
		require.Empty(t, book.of("start", waits))
		_, _, code := s.belay("processes", "stop", worker.identities()[0])
		require.Equal(t, 4, code, "it is not there any more")
	})
}
