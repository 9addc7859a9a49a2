package belaytest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// A Kit is an in-memory Redis for one test, with a client and a server. New makes it. Its methods may be called
// from any goroutine, except Drain, DrainAll and Advance, which only the test's goroutine may call.
type Kit struct {
	t      testing.TB
	memory *memory
	keys   lua.Keys
	// client is the client of the program. Servers use backstage, so that their calls do not count as pushes.
	client, backstage *belay.Client
	register          []func(*belay.Server)
	config            belay.ServerConfig
	inline            atomic.Bool
	depth             atomic.Int32 // of inline pushes in handlers of inline pushes
	maxRuns           int

	mu        sync.Mutex
	runs      []*Run
	failed    []*Run // not reported yet
	onFailure func(Run)
	pushed    map[string]belay.RawJob // by jid, after all middleware of the client
}

// New returns a Kit for the test t. It is closed when the test ends.
func New(t testing.TB) *Kit {
	t.Helper()
	return NewWith(t, belay.ClientConfig{})
}

// NewWith is New with the config of the program's own client.
func NewWith(t testing.TB, cfg belay.ClientConfig) *Kit {
	t.Helper()
	k := &Kit{t: t, memory: newMemory(t), maxRuns: maxRuns, pushed: make(map[string]belay.RawJob)}
	k.onFailure = k.failTest
	cfg.Replicas = 0 // a Redis in memory has none: see note
	var err error
	if k.client, err = belay.NewClient(watched{k.memory, k}, &cfg); err == nil {
		k.backstage, err = belay.NewClient(k.memory, &cfg)
	}
	if err != nil {
		t.Fatalf("belaytest: %v", err)
	}
	k.client.Use("belaytest", k.note, belay.Place{Last: true})
	k.keys = lua.NewKeys(k.client.Config().Prefix)
	return k
}

// note is the client's last middleware: it records each pushed job. No push waits for replicas, because no
// failover can lose its job.
func (k *Kit) note(_ context.Context, item *belay.RawJob) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pushed[item.JID] = *item
	item.Replicas = 0
	return nil
}

// Client returns the client for the program under test: a real client, whose jobs are stored in the Kit's
// Redis. The test may also make a Server from it and Run it, as the program does; in a bubble of
// testing/synctest the Server uses the bubble's clock.
func (k *Kit) Client() *belay.Client { return k.client }

// Serve adds a function that registers handlers and middleware. The program calls the same function with its
// own server. The Kit calls register with each Server that it makes, before the Server runs. A second call
// adds another function.
func (k *Kit) Serve(register func(*belay.Server)) { k.register = append(k.register, register) }

// Configure sets the config of the Kit's Servers. By default Concurrency is 1, and Logger is the test's log.
// Queues is ignored: jobs of all queues run, the oldest job first.
func (k *Kit) Configure(cfg belay.ServerConfig) { k.config = cfg }

// Inline makes each push through the Kit's client run all due jobs before it returns: the pushed job, and the
// jobs that it pushes. Retries and scheduled jobs wait until they are due; see Advance. The push succeeds
// even if the handler fails: a failed run is handled as OnFailure describes.
func (k *Kit) Inline() { k.inline.Store(true) }

// server makes a Server for these queues, with the handlers that Serve has added.
func (k *Kit) server(queues []string) *belay.Server {
	log := zerolog.New(zerolog.NewTestWriter(k.t)).Level(zerolog.WarnLevel).Hook(zerolog.HookFunc(exceptQueues))
	cfg := k.config
	cfg.Concurrency, cfg.Queues = cmp.Or(cfg.Concurrency, 1), belay.Queues(queues...)
	if cfg.Logger == nil {
		cfg.Logger = belay.Zerolog(log)
	}
	cfg.ShutdownTimeout = forever // a server is stopped while its last job runs, and must not cancel it
	s, err := belay.NewServer(k.backstage, cfg)
	if err != nil {
		k.t.Fatalf("belaytest: %v", err)
	}
	s.Use("belaytest", k.record) // first, and so outermost
	s.OnError(k.onError)
	for _, register := range k.register {
		register(s)
	}
	if len(s.Classes()) == 0 { // a Server without handlers does not run; here its jobs fail like those of an unknown class
		s.HandleUnknown(func(_ context.Context, j *belay.Job) error {
			return retry.Unregistered(j.Class())
		})
	}
	return s
}

// exceptQueues drops the warning about queues that no process takes, because a Kit's servers take only queues
// that have jobs.
func exceptQueues(event *zerolog.Event, _ zerolog.Level, message string) {
	if message == launcher.QueuesNotTaken {
		event.Discard()
	}
}

// forever is longer than any test.
const forever = 100 * 365 * 24 * time.Hour

// watched wraps the connection of the program's client, and records pushes.
type watched struct {
	*memory
	kit *Kit
}

// maxDepth bounds the nesting of inline pushes. Programs need a few levels; more are an endless loop.
const maxDepth = 20

// Do implements driver.Client.
func (w watched) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	replies := w.memory.Do(ctx, calls...)
	if !w.kit.inline.Load() || !pushes(calls) {
		return replies
	}
	defer w.kit.depth.Add(-1)
	if w.kit.depth.Add(1) > maxDepth {
		w.kit.t.Errorf("belaytest: inline pushes nest deeper than %d: does a job push itself? Use Drain", maxDepth)
		return replies
	}
	w.kit.Drain()
	return replies
}

// pushing are the scripts by which a client enqueues jobs. That of a batch's end enqueues callbacks.
var pushing = []string{"push", "push_unique", "batch_seal"}

func pushes(calls []driver.Call) bool {
	last := calls[len(calls)-1] // the client sends the jobs in the last call
	if last.Script == nil {
		return last.Args[0] == "LPUSH"
	}
	return slices.Contains(pushing, last.Script.Name())
}
