package browser

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/lua"
)

// A site is a Redis of its own, what is in it, and the programs that use it.
type site struct {
	t         *testing.T
	redis     *drivertest.Server
	keys      lua.Keys
	client    *belay.Client
	inspector *inspect.Inspector
	last      int // the number of the last job
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, redis: drivertest.Start(t), keys: lua.NewKeys("")}
	client, err := belay.Open(t.Context(), s.redis.URL(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	s.client, s.inspector = client, inspect.New(client)
	return s
}

func (s *site) do(words ...string) any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	value, err := s.redis.Do(ctx, words...)
	require.NoError(s.t, err, "%.100q", words)
	return value
}

// A program is a running belay.
type program struct {
	t   *testing.T
	cmd *exec.Cmd
	log *drivertest.Buffer
	end chan struct{}
}

// start runs belay until the test ends.
func (s *site) start(words ...string) *program {
	s.t.Helper()
	return s.run(exec.Command(belayPath, words...))
}

// run runs a command until the test ends.
func (s *site) run(cmd *exec.Cmd) *program {
	s.t.Helper()
	p := &program{t: s.t, cmd: cmd, log: &drivertest.Buffer{}, end: make(chan struct{})}
	p.cmd.Stderr = p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(s.t, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.end) }()
	s.t.Cleanup(p.kill)
	return p
}

func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	p.awaitEnd()
}

func (p *program) awaitEnd() {
	select {
	case <-p.end:
	case <-time.After(patience):
		p.t.Errorf("%v does not end", p.cmd.Args)
	}
}

// work starts a worker that takes from the queues live and long, each with a capsule, and from no other.
func (s *site) work(name string) *program {
	s.t.Helper()
	capsules := filepath.Join(s.t.TempDir(), "belay.yml")
	require.NoError(s.t, os.WriteFile(capsules, []byte("capsules: {slow: {concurrency: 2, queues: [long]}}\n"), 0o600))
	p := s.start("work", "--redis", s.redis.URL(), "-q", "live", "-c", "2", "--config", capsules, "--name", name, "--shutdown-timeout", "0s",
		"--exec", "Quick=true", "--exec", "Long=sleep 3600")
	eventually(s.t, "worker "+name, func() bool { return s.process(name) != nil })
	return p
}

// process returns a living process by its name.
func (s *site) process(name string) *inspect.Process {
	s.t.Helper()
	for _, process := range s.status().Processes {
		if process.Hostname == name && process.State == inspect.StateAlive {
			return &process
		}
	}
	return nil
}

func (s *site) status() inspect.Status {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	status, err := s.inspector.Status(ctx)
	require.NoError(s.t, err)
	return status
}

// serve starts a dashboard on an address, over the Redis at url, and returns the address of its first page.
func (s *site) serve(url, addr string) (dashboard *program, at string) {
	s.t.Helper()
	dashboard = s.start("web", "--redis", url, "--addr", addr, "--dead-limit", "100000000")
	eventually(s.t, "the dashboard", func() bool {
		answer, err := http.Get("http://" + addr + "/healthz")
		if err != nil {
			select {
			case <-dashboard.end:
				require.FailNow(s.t, "the dashboard has ended", dashboard.log.String())
			default:
			}
			return false
		}
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
	return dashboard, "http://" + addr + "/"
}

// queues are those that jobs of the sets return to. No worker takes from them, so a test can count.
var queues = []string{"mail", "reports", "imports"}

// errorsOf are the errors of failed jobs.
var errorsOf = []string{
	`"error_class":"Net::ReadTimeout","error_message":"smtp.example.com:587 did not answer in 30 s"`,
	`"error_class":"*fs.PathError","error_message":"open /srv/reports/2026-11.csv: no such file or directory"`,
	`"error_class":"RuntimeError","error_message":"connection to ledger-db-primary.internal.example.com refused, and so were 4 retries:\n  10.20.0.14:5432\n  10.20.0.15:5432"`,
}

// payload returns the next job.
func (s *site) payload(queue string, failed bool) string {
	s.last++
	classes := []string{"WelcomeEmail", "MonthlyReport", "Billing::Invoices::ImportFromSpreadsheetJob"}
	n, now := s.last, float64(time.Now().UnixMilli())/1000
	text := fmt.Sprintf(`{"class":%q,"args":[%d,"user%d@example.com",{"locale":"de","retry_of":null}],"jid":"%024x","queue":%q,"retry":true,`+
		`"created_at":%.3f,"enqueued_at":%.3f`, classes[n%3], n, n, n, queue, now-300, now-float64(n%280))
	if failed {
		text += fmt.Sprintf(`,"retry_count":%d,"failed_at":%.3f,%s`, n%7, now-200, errorsOf[n%3])
	}
	return text + "}"
}

// fill puts n jobs into a home, as a page of the dashboard names it.
func (s *site) fill(in, queue string, n int) {
	s.t.Helper()
	now := time.Now().Unix()
	if queue != "" && in != "waiting" {
		s.do("SADD", s.keys.Queues(), queue)
	}
	for n > 0 {
		batch := min(n, 500)
		n -= batch
		words := map[string][]string{
			"queue": {"LPUSH", s.keys.Queue(queue)}, "quarantined": {"LPUSH", s.keys.Quarantine(queue)},
			"waiting": {"LPUSH", s.keys.WaitingList(queue)}, "retries": {"ZADD", s.keys.Retry()}, "scheduled": {"ZADD", s.keys.Schedule()}, "dead": {"ZADD", s.keys.Dead()},
		}[in]
		for range batch {
			switch in {
			case "queue", "quarantined":
				words = append(words, s.payload(queue, false))
			case "waiting":
				words = append(words, "imports\n"+s.payload("imports", false))
			case "dead":
				words = append(words, fmt.Sprint(now-int64(s.last%86400)-1), s.payload(queues[s.last%3], true))
			default: // far enough away that no worker promotes it during the test
				words = append(words, fmt.Sprint(now+7200+int64(s.last%86400)), s.payload(queues[s.last%3], in == "retries"))
			}
		}
		s.do(words...)
		if in == "waiting" {
			s.do("ZADD", s.keys.Waiting(), fmt.Sprint(now), queue)
		}
	}
}

// gate is the gate of a limit at which jobs wait, and gatePage its page.
const gate, gatePage = "webhooks:acme", "limit?name=webhooks&key=acme"

// limits makes a limit that lets nothing start, with jobs that wait, and with a wrong count.
func (s *site) limits() {
	s.t.Helper()
	s.belay("limits", "set", "webhooks", "--concurrency", "0")
	s.fill("waiting", gate, 30)
	s.do("HSET", s.keys.Gates(), gate+"\nr", "2")
}

// batches makes a batch that is open, with members that wait, one that is dead, and one that is nested in the
// first. No worker takes from their queue.
func (s *site) batches() {
	s.t.Helper()
	member := func(id, jid string) { s.belay("push", "ImportRow", "--batch", id, "--jid", jid, "-q", "mail") }
	s.belay("batches", "new", "--id", "import-42", "--description", "orders of May", "--on-success", "ImportDone", "-q", "mail")
	s.belay("batches", "new", "--id", "import-41", "--on-death", "Alarm", "-q", "mail")
	s.nest("rows-of-42", "import-42")
	for n := range 3 {
		member("import-42", fmt.Sprintf("row-42-%d", n))
	}
	member("import-41", "row-41")
	s.belay("batches", "seal", "import-41")
	s.belay("queues", "kill", "mail", "row-41", "--yes")
}

// nest makes a batch in another one.
func (s *site) nest(id, parent string) {
	s.t.Helper()
	in, err := s.client.OpenBatch(s.t.Context(), parent)
	require.NoError(s.t, err)
	_, err = s.client.NewBatch(s.t.Context(), belay.BatchConfig{ID: id, Parent: in})
	require.NoError(s.t, err)
}

// homeOf returns a home by the name that pages give to it.
func homeOf(in, queue string) inspect.Home {
	home, _ := inspect.HomeOf(in, queue)
	return home
}

func (s *site) size(in, queue string) int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n, err := s.inspector.Size(ctx, homeOf(in, queue))
	require.NoError(s.t, err)
	return n
}

// A census says how many jobs wait where. Jobs of the queues that workers take from are not counted.
type census map[string]int

// count counts. Queues are one place: a job that is retried returns to that of its payload.
func (s *site) count() census {
	s.t.Helper()
	c := census{"retries": s.size("retries", ""), "scheduled": s.size("scheduled", ""), "dead": s.size("dead", ""), "waiting": s.size("waiting", gate)}
	for _, queue := range s.status().Queues {
		if queue.Name != "live" && queue.Name != "long" {
			c["queue"] += s.size("queue", queue.Name)
			c["quarantined"] += s.size("quarantined", queue.Name)
		}
	}
	return c
}

// find returns where a job is.
func (s *site) find(jid string) inspect.Found {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found, err := s.inspector.Find(ctx, jid, nil)
	require.NoError(s.t, err)
	return found
}

// feed keeps workers busy until the test ends: jobs that end at once, a few each second, and long ones.
func (s *site) feed() {
	s.t.Helper()
	s.do("SADD", s.keys.Queues(), "live", "long")
	push := func(ctx context.Context, class, queue string, n int) {
		now := float64(time.Now().UnixMilli()) / 1000
		_, _ = s.redis.Do(ctx, "LPUSH", s.keys.Queue(queue), fmt.Sprintf( // an error is of the end of the test
			`{"class":%q,"args":[%d],"jid":"%s%020x","queue":%q,"retry":true,"created_at":%.3f,"enqueued_at":%.3f}`, class, n, queue, n, queue, now, now))
	}
	for n := range 3 {
		push(s.t.Context(), "Long", "long", n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			push(ctx, "Quick", "live", n)
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	s.t.Cleanup(func() { cancel(); <-done })
}

// folder returns where the screenshots of this run go.
func folder(t *testing.T) string {
	t.Helper()
	if pictures == "" {
		return t.TempDir()
	}
	require.NoError(t, os.MkdirAll(pictures, 0o755))
	return pictures
}

// belay runs the program to its end.
func (s *site) belay(words ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, belayPath, append(words, "--redis", s.redis.URL())...).CombinedOutput()
	require.NoError(s.t, err, "%s", out)
}
