package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/lua"
)

// patience bounds every wait: far above what anything here takes, so that only a hang fails by it.
const patience = 60 * time.Second

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			require.FailNow(t, "waited in vain for "+what)
		}
	}
}

// A site is a keyspace of its own on some server, and what happens in it.
type site struct {
	t      *testing.T
	server *drivertest.Server
	prefix string
	keys   lua.Keys
	// url is the address that programs get for Redis: the server's, with the canary as the password, or that of a
	// proxy before it.
	url string
	// client is the Redis client that they use.
	client string
	users  users
	// dashboard is whether its pages have been searched for the canary.
	dashboard *sync.Once
}

func newSite(t *testing.T, server *drivertest.Server, heirs ...*drivertest.Server) *site {
	t.Helper()
	return siteOf(t, strings.TrimSuffix(drivertest.Prefix(t), ":"), server, heirs...)
}

// siteOf is a site with this prefix. heirs are servers that may have its keyspace later.
func siteOf(t *testing.T, prefix string, server *drivertest.Server, heirs ...*drivertest.Server) *site {
	t.Helper()
	s := &site{t: t, server: server, url: withPassword(server.URL(), "default"), client: "go-redis", dashboard: new(sync.Once)}
	s.use(prefix, heirs...)
	return s
}

// use makes the keyspace of a prefix that of the site.
func (s *site) use(prefix string, heirs ...*drivertest.Server) {
	s.t.Helper()
	s.prefix, s.keys = prefix, lua.NewKeys(prefix)
	s.users = newUsers(s.t, check.Config{Prefix: prefix}, append(heirs, s.server)...)
}

// ordinarySite is a keyspace on an audited server, for tests in which the choice of a client plays no part.
func ordinarySite(t *testing.T, options ...oracle.Option) *site {
	t.Helper()
	return newSite(t, audited(t, options...))
}

// audited is a private server whose every step is judged by the oracle when the test has ended and its workers
// are gone: each job was at every instant in one place, and moved as the laws say. options say what the test
// itself does to jobs.
func audited(t *testing.T, options ...oracle.Option) *drivertest.Server {
	t.Helper()
	server, dir := recorded(t)
	t.Cleanup(func() { judge(t, server, dir, options...) })
	return server
}

// recorded is a private server that writes down every step, and its directory. args are added to its command
// line.
func recorded(t *testing.T, args ...string) (server *drivertest.Server, dir string) {
	t.Helper()
	dir = t.TempDir()
	return drivertest.Start(t, append(recording(dir), args...)...), dir
}

// recording are the settings of a server that writes down every step.
func recording(dir string) []string { return append([]string{"--dir", dir}, stepwise...) }

// stepwise are those settings without the directory.
var stepwise = []string{"--appendonly", "yes", "--appendfsync", "no",
	"--auto-aof-rewrite-percentage", "0", "--aof-use-rdb-preamble", "no", "--aof-timestamp-enabled", "yes"}

// judge ends the server and lets the oracle judge what it has written down.
func judge(t *testing.T, server *drivertest.Server, dir string, options ...oracle.Option) *oracle.Report {
	t.Helper()
	server.Kill()
	storesNoCanary(t, dir)
	report, err := oracle.Replay(dir, append([]oracle.Option{oracle.Prefixes()}, options...)...)
	require.NoError(t, err)
	tellViolations(t, report)
	return report
}

// tellViolations logs what a log tells, and fails the test for each violation.
func tellViolations(t *testing.T, report *oracle.Report) {
	t.Helper()
	t.Log(report)
	shown := make(map[string]bool)
	for _, violation := range report.Violations[:min(len(report.Violations), 5)] {
		t.Errorf("the oracle saw a violation: %v", violation)
		if shown[violation.JID] {
			continue
		}
		shown[violation.JID] = true
		timeline, err := report.Timeline(violation.JID)
		require.NoError(t, err)
		for _, event := range timeline {
			t.Logf("in the timeline of job %s: %v", violation.JID, event)
		}
	}
}

// by is the same keyspace, reached by another way, with the canary as the password if the site's own URL has it.
func (s *site) by(url string) *site {
	other := *s
	if other.url = url; strings.Contains(s.url, canary) {
		other.url = withPassword(url, "default")
	}
	return &other
}

// eachClient runs a test with either Redis client, each on an audited server of its own.
func eachClient(t *testing.T, test func(t *testing.T, s *site), options ...oracle.Option) {
	t.Helper()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			s := newSite(t, audited(t, options...))
			s.client = client
			test(t, s)
		})
	}
}

// do sends one command, past any proxy.
func (s *site) do(words ...string) any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := s.server.Do(ctx, words...)
	require.NoError(s.t, err, "%.100q", words)
	return answer
}

// list is what lies in a Redis list, its head first; for a queue the youngest job.
func (s *site) list(key string) []string { s.t.Helper(); return texts(s.do("LRANGE", key, "0", "-1")) }

// set is what lies in a sorted set.
func (s *site) set(key string) []string { s.t.Helper(); return texts(s.do("ZRANGE", key, "0", "-1")) }

// text is a string key; empty when there is none.
func (s *site) text(key string) string {
	s.t.Helper()
	value, _ := s.do("GET", key).(string)
	return value
}

func texts(answer any) []string {
	parts, _ := answer.([]any)
	entries := make([]string, len(parts))
	for i, part := range parts {
		entries[i], _ = part.(string)
	}
	return entries
}

// newJID draws a jid as Ruby does.
func newJID() string { return fmt.Sprintf("%016x%08x", rand.Uint64(), rand.Uint32()) }

// rubyPayload is what Sidekiq writes for Class.perform_async(*args).
func rubyPayload(class, queue, args, jid string) string {
	now := float64(time.Now().UnixMicro()) / 1e6
	return fmt.Sprintf(`{"retry":true,"queue":%q,"class":%q,"args":%s,"jid":%q,"created_at":%.6f,"enqueued_at":%.6f}`,
		queue, class, args, jid, now, now)
}

// push stores a job as Ruby would, and answers its jid.
func (s *site) push(class, queue, args string) string {
	s.t.Helper()
	jid := newJID()
	s.do("SADD", s.keys.Queues(), queue)
	s.do("LPUSH", s.keys.Queue(queue), rubyPayload(class, queue, args, jid))
	return jid
}

// belay runs the program, on this keyspace, to its end, and answers what it printed and its exit status.
func (s *site) belay(words ...string) (out, errs string, status int) {
	s.t.Helper()
	url := s.urlOf(roleOf(words))
	return runBelay(s.t, nil, append(words, "--redis", url, "--prefix", s.prefix, "--client", s.client)...)
}

// runBelay runs belay to its end, with env added to its environment.
func runBelay(t *testing.T, env []string, words ...string) (out, errs string, status int) {
	t.Helper()
	return runProgram(t, belayPath, env, words...)
}

// runProgram runs a program to its end, with env added to its environment. Over a slow link that may take two
// minutes.
func runProgram(t *testing.T, path string, env []string, words ...string) (out, errs string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, words...)
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	require.NotNil(t, cmd.ProcessState, "run %s: %v", path, err)
	require.NoError(t, ctx.Err(), "%s %s does not end", path, words[0])
	requireNoCanary(t, stdout.String()+stderr.String(), words[0])
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// status is what belay status --json says.
func (s *site) status() status {
	s.t.Helper()
	out, errs, code := s.belay("status", "--json")
	require.Zero(s.t, code, "%s", errs)
	var read status
	require.NoError(s.t, json.Unmarshal([]byte(out), &read), "%s", out)
	return read
}

// status is as much of belay status --json as the tests need.
type status struct {
	Processed, Failed, Enqueued, Quarantined, Scheduled, Retries, Dead int64
	Processes                                                          []struct {
		Identity, State string
		PID             int
		Busy            int
		Quiet           bool
		Running         []struct{ JID, Class, Queue string }
	}
}

// A process is a belay worker.
type process struct {
	t       *testing.T
	pid     int
	logPath string
	done    chan struct{} // closed when it has been waited for
	state   *os.ProcessState
}

// fast are the flags of a worker whose death is noticed within a few seconds.
var fast = []string{"--heartbeat", "200ms", "--ttl", "1s"}

// hardy are the flags of a worker that is not to die, where starts are counted, or whose death need not be noticed
// as soon: a busy machine may keep a process from running for longer than a fast one's TTL.
var hardy = []string{"--heartbeat", "500ms", "--ttl", "4s"}

// work starts a worker and waits until it works. It is killed, with all that it has started, when the test
// ends.
func (s *site) work(words ...string) *process {
	s.t.Helper()
	p := s.start(words...)
	eventually(s.t, "a worker to begin", func() bool { return p.says("working") || p.ended() })
	require.False(s.t, p.ended(), "the worker ended: %s", p.log())
	return p
}

// start starts a worker and does not wait for anything.
func (s *site) start(words ...string) *process {
	s.t.Helper()
	return s.launch(belayPath, append([]string{"work", "--redis", s.url, "--prefix", s.prefix, "--client", s.client,
		"--log-format", "json"}, words...)...)
}

// launch starts a program that is a worker.
func (s *site) launch(path string, words ...string) *process {
	s.t.Helper()
	p := &process{t: s.t, logPath: filepath.Join(s.t.TempDir(), "log"), done: make(chan struct{})}
	log, err := os.Create(p.logPath)
	require.NoError(s.t, err)
	cmd := hiding(path, s.asRole(path, words)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		// The parent-death signal is sent when the thread that forked ends, so this one is kept to the end.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := cmd.Start()
		_ = log.Close() // it has a copy of its own
		started <- err
		if err == nil {
			_ = cmd.Wait()
			p.state = cmd.ProcessState
		}
	}()
	require.NoError(s.t, <-started)
	p.pid = cmd.Process.Pid
	s.t.Cleanup(func() {
		p.kill()
		if strings.Contains(p.log(), "DATA RACE") || strings.Contains(p.log(), "panic: ") {
			s.t.Error("the worker raced or panicked")
		}
		printsNoCanary(s.t, p.logPath)
		if s.t.Failed() {
			s.t.Logf("log of worker %d:\n%.20000s", p.pid, p.log())
		}
	})
	s.t.Cleanup(func() {
		if !p.ended() && !s.t.Failed() {
			for _, place := range s.shows() {
				s.t.Errorf("the password of Redis is shown: %s", place)
			}
		}
	})
	return p
}

// signal sends a signal to a worker that has not ended.
func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	require.False(p.t, p.ended(), "the worker ended: %s", p.log())
	p.looked()
	require.NoError(p.t, syscall.Kill(p.pid, sig))
}

// kill ends the worker by SIGKILL, if it has not ended, and returns when it is gone.
func (p *process) kill() {
	if !p.ended() {
		p.looked()
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait waits for the worker's end and answers its exit status; -1 when a signal ended it.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.state.ExitCode()
	case <-time.After(patience):
		require.FailNow(p.t, "the worker does not end")
		return -1
	}
}

func (p *process) log() string {
	text, _ := os.ReadFile(p.logPath)
	return string(text)
}

// says is whether the log holds a text.
func (p *process) says(text string) bool { return strings.Contains(p.log(), text) }

// awaitLog waits until the log holds a text.
func (p *process) awaitLog(text string) {
	p.t.Helper()
	eventually(p.t, "the log to say "+text, func() bool { return p.says(text) })
}

// identities are the names under which the worker has lived, its present one last.
func (p *process) identities() []string {
	p.t.Helper()
	var names []string
	for line := range strings.Lines(p.log()) {
		var entry struct{ Message, Identity string }
		if json.Unmarshal([]byte(line), &entry) == nil && (entry.Message == "working" || entry.Message == "re-registered with a new identity") {
			names = append(names, entry.Identity)
		}
	}
	return names
}

// processesWith are the command lines of processes, of whatever parent, that contain a text.
func processesWith(t *testing.T, text string) []string {
	t.Helper()
	return processesWhose(t, "cmdline", text)
}

// processesWhose are the processes whose file of that name in /proc contains a text; their command lines.
func processesWhose(t *testing.T, file, text string) []string {
	t.Helper()
	folders, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	var found []string
	for _, folder := range folders {
		if content, err := os.ReadFile(filepath.Join(folder, file)); err == nil && bytes.Contains(content, []byte(text)) {
			line, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// jsonArgs is a hand's arguments: a number to know the job by, and how many milliseconds it takes.
func jsonArgs(n, ms int) string { return fmt.Sprintf("[%d,%d]", n, ms) }
