package launcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/fetch"
)

// A Group is several Launchers under one Run: the worker's own, and one for each capsule. What one Launcher can do, a Group
// can, and it judges its own health. NewGroup builds it, Handle and Use say what it runs, Run runs it.
type Group struct {
	cfg       Config // what is shared by all
	launchers []*Launcher
	exits     []func() // of a group of several

	// What Ready and Alive ask for.
	phase       atomic.Int32
	quiet, stop []atomic.Bool // of each launcher
	bornAt      time.Time
	ttl         time.Duration
	lapsedSince atomic.Int64 // when, after bornAt, Redis was first seen to take one of us for dead; 0 if it does not
}

// How far Run has come.
const (
	phaseNew int32 = iota
	phaseRunning
	phaseEnded
)

// NewGroup builds the Launchers, or names everything that is wrong with any. Each capsule is as cfg says, but for its own
// queues, concurrency and label. It opens nothing and starts nothing.
func NewGroup(cfg Config, capsules ...Capsule) (*Group, error) {
	all := allCapsules(cfg, capsules)
	toldClosed := &sync.Once{}
	wrong := []error{checkCapsules(all)}
	if cfg.Company == nil {
		cfg.Company = &fetch.Company{} // a suspect runs alone in the whole process, not in its capsule
	}
	g := &Group{cfg: cfg, quiet: make([]atomic.Bool, len(all)), stop: make([]atomic.Bool, len(all)), bornAt: time.Now()}
	for i, its := range all {
		one := cfg
		if one.Queues = its.Queues; i > 0 {
			if its.Concurrency != 0 {
				one.Concurrency = its.Concurrency
			}
			one.Labels = append(cfg.Labels[:len(cfg.Labels):len(cfg.Labels)], "capsule:"+its.Name)
			// By itself first, so that what is wrong with the worker is not said again for each capsule.
			if _, err := New(Config{Client: one.Client, Queues: one.Queues, Concurrency: one.Concurrency}); err != nil {
				wrong = append(wrong, fmt.Errorf("capsule %q: %w", its.Name, err))
				continue
			}
		}
		l, err := New(one)
		if err != nil {
			if i == 0 {
				wrong = append(wrong, err)
			}
			continue
		}
		l.toldClosed = toldClosed
		// Also a remote control may quiet or stop one.
		l.OnQuiet(func() { g.quiet[i].Store(true) })
		l.OnStop(func() { g.stop[i].Store(true) })
		g.launchers, g.ttl = append(g.launchers, l), l.cfg.TTL // the same of all
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	return g, nil
}

// Run runs all Launchers until all have ended, as the Run of each does. The first error of one stops the rest, and is the
// answer. Run may be called once.
func (g *Group) Run(ctx context.Context) error {
	g.phase.Store(phaseRunning)
	defer g.phase.Store(phaseEnded)
	defer g.warnOfQueues(ctx)()
	if len(g.launchers) == 1 {
		return g.launchers[0].Run(ctx)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ends := make(chan error, len(g.launchers))
	for _, l := range g.launchers {
		go func() {
			err := l.Run(ctx)
			l.Stop() // one that never came to life has not told its hooks yet, and the others' wait for it
			ends <- err
		}()
	}
	var first error
	for range g.launchers {
		if err := <-ends; err != nil && first == nil {
			first = err
			stop()
		}
	}
	g.exit()
	return first
}

func (g *Group) each(do func(l *Launcher)) {
	for _, l := range g.launchers {
		do(l)
	}
}

// Handle registers the handler of a class with all Launchers, and panics as Launcher.Handle does.
func (g *Group) Handle(class string, handler Handler, about Class) {
	g.each(func(l *Launcher) { l.Handle(class, handler, about) })
}

// Use adds middleware around every handler; the first one added is the outermost. It panics after Run.
func (g *Group) Use(middleware ...Middleware) {
	g.each(func(l *Launcher) { l.Use(middleware...) })
}

// Quiet takes no more jobs, while Run goes on until it is stopped. A second call does nothing.
func (g *Group) Quiet() {
	mark(g.quiet)
	g.each((*Launcher).Quiet)
}

// Stop ends Run, as the end of its context does. A second call ends the shutdown timeout at once.
func (g *Group) Stop() {
	mark(g.stop)
	g.each((*Launcher).Stop)
}

// mark says of all launchers what their hooks would say a moment later.
func mark(flags []atomic.Bool) {
	for i := range flags {
		flags[i].Store(true)
	}
}

// Dump logs what runs and where every goroutine stands.
func (g *Group) Dump() { g.each((*Launcher).Dump) }

// Identity is the name under which the worker itself now lives, empty before it is registered; its capsules have others.
func (g *Group) Identity() string { return g.launchers[0].Identity() }

// identities are those of all, each empty before it is registered.
func (g *Group) identities() []string {
	names := make([]string, len(g.launchers))
	for i, l := range g.launchers {
		names[i] = l.Identity()
	}
	return names
}

// Busy is how many jobs run.
func (g *Group) Busy() int {
	count := 0
	g.each(func(l *Launcher) { count += len(l.Running()) })
	return count
}

// Concurrency returns the maximum number of jobs that run at once, in all capsules.
func (g *Group) Concurrency() int {
	count := 0
	g.each(func(l *Launcher) { count += l.cfg.Concurrency })
	return count
}
