package launcher

import (
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

// A pool holds all processors and their common state.
type pool struct {
	launcher   *Launcher
	handlers   map[string]registration // with the middleware already around each
	processors []*processor
}

// wrapped returns the handlers with the middleware around each. Middleware that returns nil is a mistake in
// the program, which would fail every job.
func (l *Launcher) wrapped() (map[string]registration, error) {
	handlers := make(map[string]registration, len(l.handlers))
	for class, registered := range l.handlers {
		for _, middleware := range slices.Backward(slices.Concat(l.middleware.All(), registered.class.Middleware)) {
			if registered.handler = middleware(registered.handler); registered.handler == nil {
				return nil, fmt.Errorf("belay: a middleware returned nil for the handler of the class %q: "+
					"it must return a Handler", class)
			}
		}
		handlers[class] = registered
	}
	for class, handler := range builtIn {
		if _, own := handlers[class]; !own {
			handlers[class] = registration{handler: handler}
		}
	}
	return handlers, nil
}

func newPool(l *Launcher, handlers map[string]registration) *pool {
	c := &pool{launcher: l, handlers: handlers}
	for id := range l.Concurrency() {
		c.processors = append(c.processors, &processor{id: id, pool: c})
	}
	return c
}

func (c *pool) start() {
	for _, p := range c.processors {
		go p.loop()
	}
}

func (c *pool) registered(j *job.Job) registration {
	registered, _ := registeredIn(c.handlers, j)
	return registered
}

// registeredIn returns the registration of a job's class, else of the class that it wraps, else of AnyClass,
// and the name of that class. For an unknown class the registration is the zero one.
func registeredIn(handlers map[string]registration, j *job.Job) (registered registration, class string) {
	for _, class := range [...]string{j.Class(), j.Wrapped()} {
		if registered, ok := handlers[class]; ok {
			return registered, class
		}
	}
	return handlers[AnyClass], AnyClass
}

// A processor runs one job at a time. It shares its current run, which Running lists, and its goroutine's
// number, by which a dump finds its stack.
type processor struct {
	id        int
	pool      *pool
	current   atomic.Pointer[run]
	goroutine atomic.Int64
	shared    *sharedContext // of its runs; nil before the first
}

func (p *processor) loop() {
	p.goroutine.Store(goroutine())
	defer func() {
		// Only a handler or a callback that ends its goroutine (runtime.Goexit, t.FailNow) leaves a current
		// run behind. It gets its outcome, and the processor continues in a new goroutine, also if that happens
		// again here.
		r := p.current.Load()
		if r == nil {
			return
		}
		defer func() {
			defer func() {
				r.finish()
				go p.loop()
			}()
			if !r.decided() { // the class' backoff function ended the goroutine twice
				r.outcome = job.Died(r.Bytes)
			}
			r.callAfter()
		}()
		if !r.decided() {
			r.decide(retry.ErrGoexit)
		}
	}()
	named := pprof.WithLabels(context.Background(), pprof.Labels("belay_processor", strconv.Itoa(p.id)))
	for {
		taken, ok := p.pool.launcher.loop.Take()
		if !ok {
			return
		}
		pprof.SetGoroutineLabels(named) // again, because a handler may have changed them
		p.execute(taken)
	}
}

// A sharedContext is the context under which a processor runs jobs, one after the other. To cancel a run, the
// context is cancelled, and the processor makes a new one for the next run. Most runs are never cancelled, and
// a context for each would be most of the cost of a short run.
type sharedContext struct {
	context.Context
	session context.Context
	cancel  context.CancelCauseFunc
	run     atomic.Pointer[run] // the current run; noRun between two runs, cancelledRun after a cancellation
}

var noRun, cancelledRun = &run{}, &run{}

// contextFor returns the context for a run. It is the context of the previous run, unless that was cancelled.
func (p *processor) contextFor(r *run) *sharedContext {
	session := r.Session.Context
	if p.shared != nil && p.shared.session == session && p.shared.run.CompareAndSwap(noRun, r) {
		return p.shared
	}
	if p.shared != nil {
		p.shared.cancel(nil) // no run uses it, and its parent context must release it
	}
	p.shared = &sharedContext{session: session}
	p.shared.Context, p.shared.cancel = context.WithCancelCause(session)
	p.shared.run.Store(r)
	return p.shared
}

// release ends the use of the context by a run.
func (c *sharedContext) release(r *run) { c.run.CompareAndSwap(r, noRun) }

// cancelRun ends the context of a run, unless the run has ended.
func (c *sharedContext) cancelRun(r *run, cause error) bool {
	first := c.run.CompareAndSwap(r, cancelledRun)
	if first {
		c.cancel(cause)
	}
	return first
}
