package belay

import (
	"context"
	"errors"

	"github.com/belayq/belay/launcher"
)

// OnStart adds what is to be done before anything is taken, in the order added. An error ends Run. It panics
// after Run.
func (s *Server) OnStart(hook func(ctx context.Context) error) {
	s.given("OnStart", hook != nil).OnStart(hook)
}

// OnQuiet adds what is to be done once nothing more is taken: after Quiet, or at the beginning of a stop.
// Nobody waits for it. It panics after Run.
func (s *Server) OnQuiet(hook func()) { s.given("OnQuiet", hook != nil).OnQuiet(hook) }

// OnStop adds what is to be done when a stop begins, while jobs may still be running. Nobody waits for it. It
// panics after Run.
func (s *Server) OnStop(hook func()) { s.given("OnStop", hook != nil).OnStop(hook) }

// OnExit adds what is to be done when the last job has been settled, the last one added first. Run waits for
// it. It panics after Run.
func (s *Server) OnExit(hook func()) { s.given("OnExit", hook != nil).OnExit(hook) }

// OnError adds one who hears of every run that did not succeed. It panics after Run.
func (s *Server) OnError(handler ErrorHandler) { s.given("OnError", handler != nil).OnError(handler) }

// OnStuck adds one who hears of every run whose context has ended and whose handler does not return: once it
// has gone on for as long again as its class' Timeout, though at least 5 s and at most a minute (5 s where it
// was cancelled for another reason), then every ten minutes, and when the server stops without it, unless
// that was told before. Such a run keeps its processor, and its job stays in hand: nothing can end a
// goroutine from outside. It panics after Run.
func (s *Server) OnStuck(handler StuckHandler) { s.given("OnStuck", handler != nil).OnStuck(handler) }

// OnDeath adds one who hears of jobs that will not be run again by themselves, whatever their class. It
// panics after Run.
func (s *Server) OnDeath(handler DeathHandler) { s.given("OnDeath", handler != nil).OnDeath(handler) }

// OnOrphan adds one who hears of jobs that this server brings back from processes that died. It panics after
// Run.
func (s *Server) OnOrphan(handler OrphanHandler) {
	s.given("OnOrphan", handler != nil).OnOrphan(handler)
}

// OnInternalError registers a callback for errors outside of runs: outages, calls that Redis refuses,
// unreadable payloads, hooks that panic. The callback runs once for each such log line and asynchronously;
// see InternalErrorHandler. It panics after Run.
func (s *Server) OnInternalError(handler InternalErrorHandler) {
	s.given("OnInternalError", handler != nil).OnInternalError(handler)
}

// Around puts middleware around the runs of a class, inside of what the Server puts around every run.
func Around(middleware ...Middleware) DefineOption {
	return definitionOption(func(def *definition) {
		for _, m := range middleware {
			if m == nil {
				def.wrong = append(def.wrong, errors.New("a middleware of Around is nil"))
				return
			}
		}
		def.about.Middleware = append(def.about.Middleware, middleware...)
	})
}

// OnExhausted lets handler hear of the class' jobs that will not be run again by themselves, before
// Server.OnDeath's do.
func OnExhausted(handler DeathHandler) DefineOption {
	return definitionOption(func(def *definition) {
		if def.about.Exhausted = handler; handler == nil {
			def.wrong = append(def.wrong, errors.New("the handler of OnExhausted is nil"))
		}
	})
}

// What a Server tells of.
type (
	// DeathHandler hears of jobs that will not be run again by themselves: out of retries or of time, killed
	// by their handler, or killers of processes (ErrInterrupted).
	DeathHandler = launcher.DeathHandler
	// Orphan is a job that was brought back from a process that died.
	Orphan = launcher.Orphan
	// OrphanHandler hears of orphans.
	OrphanHandler = launcher.OrphanHandler
	// InternalErrorHandler is called with errors outside of runs, func(source string, err error): go doc
	// github.com/belayq/belay/launcher.InternalErrorHandler.
	InternalErrorHandler = launcher.InternalErrorHandler
)

// ErrInterrupted is the error of a job that was buried because its process died again and again while it ran,
// the last time with nothing else in hand.
var ErrInterrupted = launcher.ErrInterrupted
