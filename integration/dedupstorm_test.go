package integration

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
)

// spanOf is how long a test goes on: what the variable says, and the usual span without it.
func spanOf(t *testing.T, variable, usual string) time.Duration {
	t.Helper()
	span, err := time.ParseDuration(cmp.Or(os.Getenv(variable), usual))
	require.NoError(t, err, variable)
	return span
}

// Fifty push jobs of fifty kinds, and eight workers run them, while workers and pushers are killed and
// stopped, Redis is killed and comes back, and runs fail. Of each kind one at a time was accepted; each refusal
// named a job that had the lock; what was promised to the refused came, once; and every step was lawful.
//
// BELAY_SEED decides who is killed when; a new one is drawn without it. BELAY_STORM says for how long.
func TestRivals(t *testing.T) {
	seed, err := chaosSeed()
	require.NoError(t, err)
	t.Logf("seed %d; again: BELAY_SEED=%d go test -count=1 -run '^TestRivals$' -v ./integration", seed, seed)
	s := newStorm(t, seed, "storm", fastStorm(3))
	s.shards = overShards(s.site, askedShards(t))
	for n := range 8 {
		s.start(check.RoleWorker, fmt.Sprintf("w%d", n), chaosClients[n%2], "--max-interruptions", fmt.Sprint(manyInterruptions))
	}
	var pushers []*stormSlot
	for n := range 2 {
		pushers = append(pushers, s.start(check.RoleProducer, fmt.Sprintf("p%d", n), chaosClients[n%2], "--rivals", "25", "--seed", fmt.Sprint(seed+uint64(n))))
	}
	s.rage(spanOf(t, "BELAY_STORM", "12s"), s.slots[:8], pushers)
	for _, p := range pushers {
		p.end(syscall.SIGTERM)
	}
	eventually(t, "all jobs to end, and their locks", func() bool {
		return waitingIn(s.shards) == 0 && !slices.ContainsFunc(s.shards, func(s *site) bool { return len(texts(s.do("KEYS", s.keys.Lock("*")))) > 0 })
	})
	for _, slot := range s.slots {
		slot.end(syscall.SIGTERM)
	}
	s.judge()
}

// manyInterruptions is --max-interruptions of the storm's workers, so that jobs that ran beside a killed one
// need not wait for an idle worker.
const manyInterruptions = 50

// A storm is one run.
type storm struct {
	t       *testing.T
	dice    *rand.Rand
	dir     string
	redis   string
	program string
	server  *drivertest.Server
	site    *site
	shards  []*site // its keyspaces; itself without shards
	book    *history.Writer
	slots   []*stormSlot
}

// fastStorm are the settings of workers that run so many jobs at once, and whose death is noticed soon.
func fastStorm(concurrency int) chaosplan.Settings {
	settings := chaosplan.Fast(0)
	settings.Concurrency = concurrency
	return settings
}

// newStorm starts Redis, whose keyspace has this prefix.
func newStorm(t *testing.T, seed uint64, prefix string, settings chaosplan.Settings) *storm {
	t.Helper()
	s := &storm{t: t, dice: rand.New(rand.NewPCG(seed, 3)), dir: t.TempDir()}
	var err error
	s.program, err = chaosWorker()
	require.NoError(t, err)
	require.NoError(t, (&chaosplan.Plan{Settings: settings}).Save(s.dir))
	// What it has acknowledged survives it.
	s.server, s.redis = recorded(t, "--appendfsync", "always")
	s.site = siteOf(t, prefix, s.server)
	s.shards = []*site{s.site}
	s.book, err = history.Create(s.dir, "nemesis")
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.book.Close() })
	return s
}

// rage lets things go wrong for a while, with workers and pushers. Without pushers, workers go wrong instead.
func (s *storm) rage(span time.Duration, workers, pushers []*stormSlot) {
	if len(pushers) == 0 {
		pushers = workers
	}
	for end := time.Now().Add(span); time.Now().Before(end); {
		time.Sleep(300*time.Millisecond + time.Duration(s.dice.IntN(900))*time.Millisecond)
		switch n := s.dice.IntN(20); {
		case n < 8:
			workers[s.dice.IntN(len(workers))].signal(syscall.SIGKILL, "KILL")
		case n < 13:
			workers[s.dice.IntN(len(workers))].signal(syscall.SIGTERM, "TERM")
		case n < 18:
			pushers[s.dice.IntN(len(pushers))].signal(syscall.SIGKILL, "KILL")
		default:
			fault := history.Event{Kind: history.Begin, Fault: "redis restart"}
			s.book.Append(fault)
			s.server.Kill()
			time.Sleep(time.Duration(s.dice.IntN(1000)) * time.Millisecond)
			s.server.Restart(s.t)
			fault.Kind = history.End
			s.book.Append(fault)
		}
	}
}

// judge holds the histories, and what Redis wrote down, against each other.
func (s *storm) judge() {
	s.t.Helper()
	answers := oracle.Answers{Zero: time.Now().Add(-history.Now()), Again: "until_executed, once more", Until: "until_executing", Dead: make(map[string]bool)}
	for _, shard := range s.shards {
		for _, text := range shard.set(shard.keys.Dead()) {
			if parsed, err := job.Parse(text); err == nil {
				answers.Dead[parsed.JID()] = true
			}
		}
	}
	var err error
	answers.Events, err = history.Read(s.dir)
	require.NoError(s.t, err)
	report := judge(s.t, s.server, s.redis, oracle.OneFleet(), oracle.MaxInterruptions(manyInterruptions))
	counts, breaches := report.JudgeAnswers(answers)
	s.t.Logf("storm: %d pushes: %d accepted, %d refused, %d unknown; %d starts, %d jobs ran once more", counts[history.Invoke], counts[history.Accepted],
		counts[history.Duplicate], counts[history.Unknown], counts[history.Start], len(report.Follows))
	for _, breach := range breaches[:min(len(breaches), 5)] {
		s.t.Error(breach)
		for _, e := range answers.Events {
			if e.Token != "" && strings.HasPrefix(breach, e.Token+",") || e.Token == "" && e.Fault != "" {
				s.t.Logf("%v %s %s %s %s %s%s %s", e.At, e.Proc, e.Kind, e.Token, e.JID, e.Outcome, e.Fault, e.Text)
			}
		}
	}
	require.Zero(s.t, report.Locks)
	require.Positive(s.t, counts[history.Accepted])
	require.Positive(s.t, counts[history.Duplicate])
	require.NotEmpty(s.t, report.Follows, "the storm proves less than it should")
}

// A stormSlot is one process after another: when it ends, the next is started.
type stormSlot struct {
	storm *storm
	name  string
	words []string

	mu     sync.Mutex
	pid    int
	proc   string
	ending bool
	loop   sync.WaitGroup
}

// start starts a process of a role, and the next when it ends.
func (s *storm) start(role check.Role, name, client string, words ...string) *stormSlot {
	slot := &stormSlot{storm: s, name: name}
	slot.words = append([]string{"--redis", s.site.urlOf(role), "--client", client, "--prefix", s.site.prefix, "--dir", s.dir}, words...)
	s.slots = append(s.slots, slot)
	slot.loop.Go(func() {
		for start := 1; slot.live(start); start++ {
		}
	})
	s.t.Cleanup(func() { slot.end(syscall.SIGKILL) })
	return slot
}

// live runs one process to its end, and is false when there must be none.
func (l *stormSlot) live(start int) bool {
	proc := fmt.Sprintf("%s-%d", l.name, start)
	log, err := os.Create(filepath.Join(l.storm.dir, proc+".log"))
	if err != nil {
		l.storm.t.Errorf("storm: %v", err)
		return false
	}
	defer func() { _ = log.Close() }()
	words := append([]string{"--proc", proc}, l.words...)
	cmd := hiding(l.storm.program, words...)
	cmd.Stdout, cmd.Stderr = log, log
	l.mu.Lock()
	if l.ending {
		l.mu.Unlock()
		return false
	}
	err = cmd.Start()
	if err == nil {
		l.pid, l.proc = cmd.Process.Pid, proc
	}
	l.mu.Unlock()
	if err != nil {
		l.storm.t.Errorf("storm: %v", err)
		return false
	}
	_ = cmd.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pid = 0
	l.storm.book.Append(history.Event{Kind: history.Gone, Proc: proc, Text: cmd.ProcessState.String()})
	text, _ := os.ReadFile(log.Name())
	if strings.Contains(string(text), "DATA RACE") || strings.Contains(string(text), "panic: ") || cmd.ProcessState.ExitCode() > 0 {
		l.storm.t.Errorf("%s: %v\n%.5000s", proc, cmd.ProcessState, text)
	}
	printsNoCanary(l.storm.t, log.Name())
	return true
}

// signal writes down a signal, and sends it.
func (l *stormSlot) signal(sig syscall.Signal, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pid != 0 {
		l.storm.book.Append(history.Event{Kind: history.Signalled, Proc: l.proc, Fault: name})
		_ = syscall.Kill(l.pid, sig)
	}
}

// end has the process be the last, and waits until it is gone.
func (l *stormSlot) end(sig syscall.Signal) {
	l.mu.Lock()
	l.ending = true
	l.mu.Unlock()
	l.signal(sig, map[syscall.Signal]string{syscall.SIGKILL: "KILL", syscall.SIGTERM: "TERM"}[sig])
	l.loop.Wait()
}
