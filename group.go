package belay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/launcher"
)

// A group is the launchers of one server: its own, and one for each capsule. What one launcher can do, a group can.
type group struct {
	launchers []*launcher.Launcher
	log       *zerolog.Logger
	exits     []func() // of a group of several

	// What Health asks for.
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

// newGroup builds the launchers, and names everything that is wrong with any.
func newGroup(cfg *serverConfig) (*group, error) {
	wrong := []error{cfg.checkCapsules()}
	count := 1 + len(cfg.capsules)
	g := &group{log: cfg.Log, quiet: make([]atomic.Bool, count), stop: make([]atomic.Bool, count), bornAt: time.Now(), ttl: cfg.TTL}
	if len(cfg.capsules) > 0 {
		cfg.Company = &fetch.Company{} // a suspect runs alone in the whole process, not in its capsule
	}
	for i, its := range cfg.all() {
		one := cfg.Config // what is shared by all of a process stands here: client, log, clocks, limits
		if one.Queues = its.queues; i > 0 {
			if its.concurrency != 0 {
				one.Concurrency = its.concurrency
			}
			one.Labels = append(cfg.Labels[:len(cfg.Labels):len(cfg.Labels)], "capsule:"+its.name)
			// By itself first, so that what is wrong with the server is not said again for each capsule.
			if _, err := launcher.New(launcher.Config{Client: one.Client, Queues: one.Queues, Concurrency: one.Concurrency}); err != nil {
				wrong = append(wrong, fmt.Errorf("capsule %q: %w", its.name, err))
				continue
			}
		}
		l, err := launcher.New(one)
		if err != nil {
			if i == 0 {
				wrong = append(wrong, err)
			}
			continue
		}
		// Also a remote control may quiet or stop one.
		l.OnQuiet(func() { g.quiet[i].Store(true) })
		l.OnStop(func() { g.stop[i].Store(true) })
		g.launchers = append(g.launchers, l)
	}
	return g, errors.Join(wrong...)
}

// Run runs all launchers until all have ended. The first error of one stops the rest, and is the answer.
func (g *group) Run(ctx context.Context) error {
	g.phase.Store(phaseRunning)
	defer g.phase.Store(phaseEnded)
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

func (g *group) each(do func(l *launcher.Launcher)) {
	for _, l := range g.launchers {
		do(l)
	}
}

func (g *group) Handle(class string, handler Handler, about launcher.Class) {
	g.each(func(l *launcher.Launcher) { l.Handle(class, handler, about) })
}

func (g *group) Use(middleware ...Middleware) {
	g.each(func(l *launcher.Launcher) { l.Use(middleware...) })
}

func (g *group) Quiet() {
	mark(g.quiet)
	g.each((*launcher.Launcher).Quiet)
}

func (g *group) Stop() {
	mark(g.stop)
	g.each((*launcher.Launcher).Stop)
}

func (g *group) Dump() { g.each((*launcher.Launcher).Dump) }

// mark says of all launchers what their hooks would say a moment later.
func mark(flags []atomic.Bool) {
	for i := range flags {
		flags[i].Store(true)
	}
}

// intends says whether all launchers are there and mean to take jobs, and if not, why.
func (g *group) intends() finding {
	if g.phase.Load() != phaseRunning {
		return finding{Reason: "not_running", Detail: "Run has not been called, or has returned"}
	}
	for i, l := range g.launchers {
		switch {
		case g.stop[i].Load():
			return finding{Reason: "stopping"}
		case g.quiet[i].Load():
			return finding{Reason: "quiet"}
		case l.Identity() == "":
			return finding{Reason: "not_registered", Detail: "redis has not answered yet"}
		}
	}
	return finding{OK: true}
}

// Identity is the server's own; its capsules have others.
func (g *group) Identity() string { return g.launchers[0].Identity() }

// identities are those of all, each empty before it is registered.
func (g *group) identities() []string {
	names := make([]string, len(g.launchers))
	for i, l := range g.launchers {
		names[i] = l.Identity()
	}
	return names
}

// staying are the identities of those that do not stop.
func (g *group) staying() []string {
	var names []string
	for i, l := range g.launchers {
		if !g.stop[i].Load() {
			names = append(names, l.Identity())
		}
	}
	return names
}

func (g *group) OnError(handler ErrorHandler) {
	g.each(func(l *launcher.Launcher) { l.OnError(handler) })
}

func (g *group) OnStuck(handler StuckHandler) {
	g.each(func(l *launcher.Launcher) { l.OnStuck(handler) })
}

func (g *group) OnDeath(handler launcher.DeathHandler) {
	g.each(func(l *launcher.Launcher) { l.OnDeath(handler) })
}

func (g *group) OnOrphan(handler launcher.OrphanHandler) {
	g.each(func(l *launcher.Launcher) { l.OnOrphan(handler) })
}

// OnStart has the hook called by the first launcher that begins; the others wait for what it says.
func (g *group) OnStart(hook func(ctx context.Context) error) {
	var once sync.Once
	err := errors.New("the start hook panicked") // unless it returns
	g.each(func(l *launcher.Launcher) {
		l.OnStart(func(ctx context.Context) error {
			once.Do(func() { err = hook(ctx) })
			return err
		})
	})
}

func (g *group) OnQuiet(hook func()) {
	last := g.last(hook)
	g.each(func(l *launcher.Launcher) { l.OnQuiet(last) })
}

func (g *group) OnStop(hook func()) {
	last := g.last(hook)
	g.each(func(l *launcher.Launcher) { l.OnStop(last) })
}

// last calls the hook at its last call of as many as there are launchers.
func (g *group) last(hook func()) func() {
	var calls atomic.Int64
	return func() {
		if calls.Add(1) == int64(len(g.launchers)) {
			hook()
		}
	}
}

// OnExit has the hook called when the last of the launchers has settled its last job.
func (g *group) OnExit(hook func()) {
	if len(g.launchers) == 1 {
		g.launchers[0].OnExit(hook)
		return
	}
	g.exits = append(g.exits, hook)
}

// exit calls the exit hooks of a group of several, if any of these has lived.
func (g *group) exit() {
	if strings.Join(g.identities(), "") == "" {
		return
	}
	for i := len(g.exits) - 1; i >= 0; i-- {
		g.guard(g.exits[i])
	}
}

func (g *group) guard(hook func()) {
	defer func() {
		if value := recover(); value != nil && g.log != nil {
			g.log.Error().Any("panic", fmt.Sprint(value)).Msg("exit hook panicked")
		}
	}()
	hook()
}

// standing is the identity of a launcher whose manager does not turn; empty when all do.
func (g *group) standing(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, redisSoon)
	defer cancel()
	for _, l := range g.launchers {
		if !l.Turns(ctx) {
			return l.Identity()
		}
	}
	return ""
}

// busy is how many jobs run.
func (g *group) busy() int {
	count := 0
	g.each(func(l *launcher.Launcher) { count += len(l.Running()) })
	return count
}
