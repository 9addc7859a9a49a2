package launcher

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
)

// OnError adds one who hears of every run that did not succeed. It panics after Run.
func (g *Group) OnError(handler ErrorHandler) {
	g.each(func(l *Launcher) { l.OnError(handler) })
}

// OnStuck adds one who hears of every run whose context has ended and whose handler does not return, when Launcher.OnStuck
// says. It panics after Run.
func (g *Group) OnStuck(handler StuckHandler) {
	g.each(func(l *Launcher) { l.OnStuck(handler) })
}

// OnDeath adds one who hears of jobs that will not be run again by themselves. It panics after Run.
func (g *Group) OnDeath(handler DeathHandler) {
	g.each(func(l *Launcher) { l.OnDeath(handler) })
}

// OnOrphan adds one who hears of jobs that this process brings back from others that died. It panics after Run.
func (g *Group) OnOrphan(handler OrphanHandler) {
	g.each(func(l *Launcher) { l.OnOrphan(handler) })
}

// OnInternalError registers a callback for errors outside of runs, of each of the Launchers. It panics after Run.
func (g *Group) OnInternalError(handler InternalErrorHandler) {
	g.each(func(l *Launcher) { l.OnInternalError(handler) })
}

// OnStart adds what is to be done before anything is taken, once for all: the first Launcher that begins calls it, and the
// others wait for what it says. An error ends Run. It panics after Run.
func (g *Group) OnStart(hook func(ctx context.Context) error) {
	var once sync.Once
	err := errors.New("the start hook panicked") // unless it returns
	g.each(func(l *Launcher) {
		l.OnStart(func(ctx context.Context) error {
			once.Do(func() { err = hook(ctx) })
			return err
		})
	})
}

// OnQuiet adds what is to be done once none of the Launchers takes anything more. Nobody waits for it. It panics after Run.
func (g *Group) OnQuiet(hook func()) {
	last := g.last(hook)
	g.each(func(l *Launcher) { l.OnQuiet(last) })
}

// OnStop adds what is to be done once all Launchers have begun to stop, while jobs may still be running. Nobody waits for
// it. It panics after Run.
func (g *Group) OnStop(hook func()) {
	last := g.last(hook)
	g.each(func(l *Launcher) { l.OnStop(last) })
}

// last calls the hook at its last call of as many as there are launchers.
func (g *Group) last(hook func()) func() {
	var calls atomic.Int64
	return func() {
		if calls.Add(1) == int64(len(g.launchers)) {
			hook()
		}
	}
}

// OnExit adds what is to be done when the last of the Launchers has settled its last job, the last one added first. Run
// waits for it.
func (g *Group) OnExit(hook func()) {
	if len(g.launchers) == 1 {
		g.launchers[0].OnExit(hook)
		return
	}
	g.exits = append(g.exits, hook)
}

// exit calls the exit hooks of a group of several, if any of these has lived.
func (g *Group) exit() {
	if strings.Join(g.identities(), "") == "" {
		return
	}
	for i := len(g.exits) - 1; i >= 0; i-- {
		g.guard(g.exits[i])
	}
}

// guard is Launcher.guard for a hook that is nobody's own.
func (g *Group) guard(hook func()) {
	defer func() {
		if value := recover(); value != nil {
			g.launchers[0].logPanic("exit hook", value)
		}
	}()
	hook()
}
