package belaytest

import (
	"context"
	"fmt"
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

// A Kit is a Redis within one test, a client of it, and what runs the jobs. New makes it. Its methods may be called from
// any goroutine, but for Drain and its siblings, which are the test's to call.
type Kit struct {
	t      testing.TB
	memory *memory
	keys   lua.Keys
	// client is the program's, backstage the one that servers are made from: what they do is nobody's push.
	client, backstage *belay.Client
	register          []func(*belay.Server)
	options           []belay.ServerOption
	inline            atomic.Bool
	depth             atomic.Int32 // of inline pushes in handlers of inline pushes
	mostRuns          int

	mu        sync.Mutex
	runs      []*Run
	failed    []*Run // not told of yet
	onFailure func(Run)
	pushed    map[string]belay.Item // by jid, as the last middleware saw them
}

// New makes a Kit for a test, which ends with it. Options are those of the program's own client (prefix, middleware, ...).
func New(t testing.TB, options ...belay.ClientOption) *Kit {
	t.Helper()
	k := &Kit{t: t, memory: newMemory(t), mostRuns: mostRuns, pushed: make(map[string]belay.Item)}
	k.onFailure = k.failTest
	var err error
	if k.client, err = belay.NewClient(watched{k.memory, k}, append(slices.Clip(options), belay.OnPush(k.note))...); err == nil {
		k.backstage, err = belay.NewClient(k.memory, options...)
	}
	if err != nil {
		t.Fatalf("belaytest: %v", err)
	}
	k.keys = lua.NewKeys(k.client.Config().Prefix)
	return k
}

// note is the client's last middleware.
func (k *Kit) note(_ context.Context, item *belay.Item) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pushed[item.JID] = *item
	return nil
}

// Client is for the program under test: a real client, whose jobs lie in the Kit's Redis. A Server may also be made from
// it and Run, as in the program itself; inside a bubble of testing/synctest it then works by the bubble's clock.
func (k *Kit) Client() *belay.Client { return k.client }

// Serve says what runs the jobs: register is called with each Server that the Kit makes, before it runs, and registers
// handlers and middleware as the program does; it may be nil. Options are those of the program's server: without
// Concurrency jobs run one after the other. All queues are served, the one with the oldest job first; a queue that is
// named among the options is taken from by chance. Calling Serve again adds to what was said.
func (k *Kit) Serve(register func(*belay.Server), options ...belay.ServerOption) {
	if register != nil {
		k.register = append(k.register, register)
	}
	k.options = append(k.options, options...)
}

// Inline has each push through the Kit's client run, before it returns, everything that is due: the job, and whatever
// that pushes. Retries wait for their time, as do jobs for later; see Advance. The push itself succeeds whatever the
// handler says: failures go where OnFailure says.
func (k *Kit) Inline() { k.inline.Store(true) }

// server makes a Server as Serve has said, for these queues.
func (k *Kit) server(queues []string) *belay.Server {
	log := zerolog.New(zerolog.NewTestWriter(k.t)).Level(zerolog.WarnLevel).Hook(zerolog.HookFunc(exceptQueues))
	options := append([]belay.ServerOption{belay.Concurrency(1), belay.Logger(log)}, k.options...)
	// Servers are stopped while their last jobs run, which must not cancel those.
	options = append(options, belay.Queues(queues...), belay.ShutdownTimeout(forever))
	s := belay.NewServer(k.backstage, options...)
	s.Use(k.record) // first, and so outermost
	s.OnError(k.hear)
	for _, register := range k.register {
		register(s)
	}
	if len(s.Classes()) == 0 { // no Server can run without handlers: waiting jobs fail as jobs of a class without a handler do
		s.HandleClass(belay.AnyClass, func(_ context.Context, j *belay.Job) error {
			return fmt.Errorf("%w %q", retry.ErrUnregistered, j.Class())
		})
	}
	return s
}

// exceptQueues drops the warning about queues that are not taken, because a Kit's servers take only queues
// that hold jobs.
func exceptQueues(event *zerolog.Event, _ zerolog.Level, message string) {
	if message == launcher.QueuesNotTaken {
		event.Discard()
	}
}

// forever is longer than any test.
const forever = 100 * 365 * 24 * time.Hour

// watched is the way of the program's client to Redis: it notices pushes.
type watched struct {
	*memory
	kit *Kit
}

// mostDepth is how deep inline pushes may nest. A program that means it has a handful of levels.
const mostDepth = 20

// Do implements driver.Client.
func (w watched) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	replies := w.memory.Do(ctx, calls...)
	if !w.kit.inline.Load() || !pushes(calls) {
		return replies
	}
	defer w.kit.depth.Add(-1)
	if w.kit.depth.Add(1) > mostDepth {
		w.kit.t.Errorf("belaytest: inline pushes nest deeper than %d: does a job push itself? Use Drain", mostDepth)
		return replies
	}
	w.kit.Drain()
	return replies
}

func pushes(calls []driver.Call) bool {
	last := calls[len(calls)-1] // where client puts them
	return last.Script != nil && last.Script.Name() == "push" || last.Script == nil && last.Args[0] == "LPUSH"
}
