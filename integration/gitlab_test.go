package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

// A gitlabRuby is a process of the real Sidekiq with a fetch that keeps jobs as GitLab's reliable fetch does:
// testdata/gitlab_worker.rb.
type gitlabRuby struct {
	cmd  *exec.Cmd
	book string // the file that its jobs append their jids to
}

// startGitLab starts one on the queue "ruby", which ends with the test.
func startGitLab(t *testing.T, s *site, concurrency int, env ...string) *gitlabRuby {
	t.Helper()
	r := &gitlabRuby{book: filepath.Join(t.TempDir(), "ledger")}
	r.cmd = exec.Command("sidekiq", "-r", "./"+filepath.Join("testdata", "gitlab_worker.rb"), "-q", "ruby", "-c", strconv.Itoa(concurrency), "-t", "2")
	r.begin(t, s, env...)
	return r
}

func (r *gitlabRuby) begin(t *testing.T, s *site, env ...string) {
	t.Helper()
	needSidekiq(t)
	r.cmd.Env = append(os.Environ(), append(env, "REDIS_URL="+s.url, "LEDGER="+r.book, "RUBYOPT=-W0")...)
	var output strings.Builder
	r.cmd.Stdout, r.cmd.Stderr = &output, &output
	require.NoError(t, r.cmd.Start())
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		if t.Failed() {
			t.Logf("Ruby said:\n%.10000s", output.String())
		}
	})
}

// began are the jids of the jobs that have begun in this process.
func (r *gitlabRuby) began() []string {
	text, _ := os.ReadFile(r.book)
	return strings.Fields(string(text))
}

// A Ruby process with GitLab's reliable fetch, in any of its forms, is killed beside a living one. Its jobs run
// in Go once its heartbeat has run out and the command has doubted; those of the living one run on in Ruby.
func TestWhatAKilledGitLabProcessHeldRunsInGo(t *testing.T) {
	t.Parallel()
	command := buildWorker(t, "github.com/belayq/belay/contrib/gitlab/cmd/belay-gitlab")
	for name, env := range map[string][]string{
		"reliable": nil, "semi-reliable": {"SEMI=1"}, "reliable before nonces": {"LEGACY=1"}, "semi-reliable before nonces": {"SEMI=1", "LEGACY=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The oracle does not know GitLab's lists: to it they are nowhere.
			s := newSite(t, audited(t, oracle.Prefix(""), oracle.Foreign(5*time.Second), oracle.Allow(oracle.Queue, oracle.Nowhere), oracle.Allow(oracle.Nowhere, oracle.Queue)))
			s.use("")
			end := filepath.Join(t.TempDir(), "end")
			hold := func(r *gitlabRuby, jobs int) (jids []string) {
				for range jobs {
					jids = append(jids, s.push("Held", "ruby", fmt.Sprintf("[%q,1.0,[]]", end)))
				}
				eventually(t, "Ruby to begin its jobs", func() bool { return len(r.began()) == jobs })
				require.ElementsMatch(t, jids, r.began())
				return jids
			}
			env := append(env, "LIFESPAN=9")
			victim := startGitLab(t, s, 4, env...)
			lost := hold(victim, 4)
			living := startGitLab(t, s, 2, env...)
			kept := hold(living, 2)

			require.NoError(t, victim.cmd.Process.Kill())
			killed := time.Now()
			book := newLedger(t)
			s.work("-q", "ruby", "-c", "4", "--exec", book.exec("Held"))
			recovered := 0
			eventually(t, "the command to find them", func() bool {
				out, errs, code := runProgram(t, command, nil, "--redis", s.url, "--client", s.client, "--doubt", "3s", "--json")
				require.Zero(t, code, errs)
				var result struct{ Recovered, Dead, Alive int }
				require.NoError(t, json.Unmarshal([]byte(out), &result))
				require.Zero(t, result.Dead)
				require.Positive(t, result.Alive, "one process is alive")
				recovered += result.Recovered
				return recovered >= len(lost)
			})
			for _, jid := range lost {
				ended := book.awaitEnd(jid)
				require.Greater(t, ended.At.Sub(killed), 3*time.Second, "the command doubts first")
				require.Equal(t, fmt.Sprintf("[%q,1.0,[]]", end), string(book.starts(jid)[0].Input))
			}
			require.NoError(t, os.WriteFile(end, nil, 0o600))
			eventually(t, "the living process to end its jobs", func() bool { return len(texts(s.do("KEYS", "working:queue:*"))) == 0 })
			require.ElementsMatch(t, kept, living.began(), "each once")
			require.Len(t, book.starts(""), len(lost), "each once, and none of the living process")
			require.Equal(t, len(lost), recovered)
			require.Empty(t, s.list(s.keys.Queue("ruby")))
		})
	}
}

// An imitation of the gem's cleaner looks again and again while Belay's workers hold jobs, with all names of
// queues and hosts that could look like its own. It takes the list of a dead Ruby process, and nothing of Belay.
func TestGitLabsCleanerTakesNothingOfBelay(t *testing.T) {
	t.Parallel()
	needSidekiq(t)
	queues := []string{"default", "a:b:c", "working:queue:x", "working:queue:x:h:1:ab", "h:1:deadbeef", "queue:working:queue:y"}
	for name, prefix := range map[string]string{"without a prefix": "", "with a namespace": "ns"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := []oracle.Option{oracle.Allow(oracle.Nowhere, oracle.Queue)} // the cleaner's own job
			if prefix == "" {
				options = append(options, oracle.Prefix(""))
			}
			s := newSite(t, audited(t, options...))
			s.use(prefix)
			namespace := ""
			if prefix != "" {
				namespace = prefix + ":"
			}
			canary := namespace + "working:queue:canary:dead:1:aa"
			s.do("LPUSH", canary, rubyPayload("Canary", "canary", "[]", newJID()))
			book := newLedger(t)
			const each = 8
			var jids []string
			for _, queue := range queues {
				for range each {
					jids = append(jids, s.push("Job", queue, "[]"))
				}
			}
			cleaner := &gitlabRuby{cmd: exec.Command("ruby", filepath.Join("testdata", "gitlab_worker.rb"))}
			cleaner.begin(t, s, "CLEANS=0.02", "NAMESPACES=,"+namespace)
			looked := func() (n int) {
				n, _ = strconv.Atoi(s.text("cleaner-looked"))
				return n
			}
			eventually(t, "the cleaner to look", func() bool { return looked() > 1 })
			var flags []string
			for _, queue := range queues {
				flags = append(flags, "-q", queue)
			}
			for _, host := range []string{"fe80::1", "web.example.com", "working:queue:z:h"} {
				s.work(append(flags, "--name", host, "-c", "2", "--exec", book.exec("Job", "-for", "500ms"))...)
			}
			before := looked()
			for _, jid := range jids {
				book.awaitEnd(jid)
			}
			require.Greater(t, looked(), before+2, "it looked while jobs were in hand")
			last := looked()
			eventually(t, "the cleaner to look once more", func() bool { return looked() > last+2 })
			require.Len(t, book.starts(""), len(jids), "each once")
			require.Zero(t, s.do("EXISTS", canary), "it cleans what is its own")
			require.Len(t, s.list(s.keys.Queue("canary")), 1)
			eventually(t, "all results", func() bool { return s.text(s.keys.Processed()) == strconv.Itoa(len(jids)) })
			require.NoError(t, cleaner.cmd.Process.Signal(syscall.Signal(0)), "it still looks")
		})
	}
	s := newSite(t, audited(t))
	out, errs, code := runBelay(t, nil, "push", "Job", "--redis", s.url, "--prefix", "working")
	require.NotZero(t, code, out)
	require.Contains(t, errs, "GitLab's reliable fetch")
}
