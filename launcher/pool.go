package launcher

import (
	"fmt"
	"slices"

	"github.com/belayq/belay/job"
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
