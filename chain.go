package belay

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// A Chain is middleware in its order, each piece under a name, so that a program can place its own before or after a
// library's, or take that out. M is Middleware (see UseChain) or PushMiddleware (see PushChain). The first piece of a chain
// is the outermost: it sees a job first.
//
// The zero Chain is empty and ready. A mistake (a name twice, a place that does not exist) is the error of the Open,
// NewClient or Run that the chain is given to.
type Chain[M any] struct {
	links []link[M]
	wrong []error
}

type link[M any] struct {
	name       string
	middleware M
}

// Add puts m last, next to the handler.
func (c *Chain[M]) Add(name string, m M) *Chain[M] { return c.insert(len(c.links), name, m) }

// Prepend puts m first.
func (c *Chain[M]) Prepend(name string, m M) *Chain[M] { return c.insert(0, name, m) }

// InsertBefore puts m right before the piece called mark.
func (c *Chain[M]) InsertBefore(mark, name string, m M) *Chain[M] {
	return c.insert(c.find(mark), name, m)
}

// InsertAfter puts m right after the piece called mark.
func (c *Chain[M]) InsertAfter(mark, name string, m M) *Chain[M] {
	if at := c.find(mark); at >= 0 {
		return c.insert(at+1, name, m)
	}
	return c
}

// Remove takes out the piece called name. Where there is none there is nothing to do.
func (c *Chain[M]) Remove(name string) *Chain[M] {
	c.links = slices.DeleteFunc(c.links, func(l link[M]) bool { return l.name == name })
	return c
}

// Names are those of the pieces, the outermost first.
func (c *Chain[M]) Names() []string {
	names := make([]string, len(c.links))
	for i, l := range c.links {
		names[i] = l.name
	}
	return names
}

func (c *Chain[M]) find(mark string) int {
	at := slices.Index(c.Names(), mark)
	if at < 0 {
		c.wrong = append(c.wrong, fmt.Errorf("middleware: there is none called %q in %q", mark, c.Names()))
	}
	return at
}

func (c *Chain[M]) insert(at int, name string, m M) *Chain[M] {
	switch {
	case at < 0: // find has said so
	case reflect.ValueOf(m).Kind() == reflect.Func && reflect.ValueOf(m).IsNil():
		c.wrong = append(c.wrong, fmt.Errorf("middleware: %q is nil", name))
	case slices.Contains(c.Names(), name):
		c.wrong = append(c.wrong, fmt.Errorf("middleware: %q is in the chain already", name))
	default:
		c.links = slices.Insert(c.links, at, link[M]{name, m})
	}
	return c
}

// all are the pieces in order, and what is wrong with the chain.
func (c *Chain[M]) all() ([]M, error) {
	pieces := make([]M, len(c.links))
	for i, l := range c.links {
		pieces[i] = l.middleware
	}
	return pieces, errors.Join(c.wrong...)
}

// UseChain puts a chain of middleware around every run of a Server, outside of what Server.Use adds.
func UseChain(chain Chain[Middleware]) ServerOption {
	return func(c *serverConfig) {
		pieces, err := chain.all()
		c.middleware = append(c.middleware, pieces...)
		c.wrong = append(c.wrong, err)
	}
}

// PushChain lets a chain of middleware see each job before it is pushed.
func PushChain(chain Chain[PushMiddleware]) ClientOption {
	return func(c *clientConfig) {
		pieces, err := chain.all()
		c.Middleware = append(c.Middleware, pieces...)
		c.wrong = append(c.wrong, err)
	}
}
