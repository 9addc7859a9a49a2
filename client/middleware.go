package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// A Middleware gets each job before it is checked and sent, and may change it: queue, args, tags, fields.
// Class, queue and JID are set. It may append to slices or replace them, but must not write into them.
//
// If it returns the error of Refuse, the job is not pushed, and the receipt has StatusRefused. Any other
// error fails the push. A Middleware does not wrap the sending, because many jobs are sent in one call. The
// same is true of Sidekiq: the push follows after the last middleware has returned. RawJob.OnPushed reports the
// outcome.
type Middleware func(ctx context.Context, j *RawJob) error

// Refuse returns the error with which a Middleware refuses a job. reason is for people.
func Refuse(reason string) error { return &refusal{reason} }

type refusal struct{ reason string }

func (r *refusal) Error() string { return "belay: refused: " + r.reason }

// reasonOf returns the reason of a refusal.
func reasonOf(err error) (reason string, refused bool) {
	var r *refusal
	if !errors.As(err, &r) {
		return "", false
	}
	return r.reason, true
}

// Use adds middleware under a name, at a place; without a place, after all earlier middleware. It panics if
// the name is taken, if the place does not exist, and after the first push.
func (c *Client) Use(name string, m Middleware, at ...Place) {
	if c.pushed.Load() {
		panic("belay: Client.Use " + name + " after the first push: add middleware before")
	}
	if err := c.middleware.Add(name, m, at...); err != nil {
		panic("belay: Client.Use: " + err.Error())
	}
}

// RemoveMiddleware removes the middleware of that name, such as one that a library has added. It panics if
// there is none, and after the first push.
func (c *Client) RemoveMiddleware(name string) {
	if c.pushed.Load() {
		panic("belay: Client.RemoveMiddleware " + name + " after the first push: remove middleware before")
	}
	if err := c.middleware.Remove(name); err != nil {
		panic("belay: Client.RemoveMiddleware: " + err.Error())
	}
}

// A Place is a position in a Chain.
type Place struct {
	where where
	mark  string
}

type where int

const (
	last where = iota + 1
	first
	before
	after
	instead
)

// First returns the place before all others: the middleware gets a job first.
func First() Place { return Place{where: first} }

// Last returns the place after all others, also after those that are added later without a place.
func Last() Place { return Place{where: last} }

// Before returns the place right before the middleware of that name.
func Before(name string) Place { return Place{before, name} }

// After returns the place right after the middleware of that name.
func After(name string) Place { return Place{after, name} }

// InPlaceOf returns the place of the middleware of that name, which it replaces.
func InPlaceOf(name string) Place { return Place{instead, name} }

// A Chain is an ordered list of named middleware. The first one is the outermost: it gets a job first. The
// zero Chain is empty and ready for use.
type Chain[M any] struct {
	names  []string
	pieces []M
	lasts  []string // those added at the place Last
}

// All returns the middleware in order.
func (c *Chain[M]) All() []M { return c.pieces }

// Add adds middleware. It changes nothing if it returns an error.
func (c *Chain[M]) Add(name string, m M, places ...Place) error {
	if value := reflect.ValueOf(m); !value.IsValid() || value.Kind() == reflect.Func && value.IsNil() {
		return fmt.Errorf("middleware %q is nil", name)
	}
	var place Place
	switch len(places) {
	case 0:
	case 1:
		place = places[0]
	default:
		return fmt.Errorf("middleware %q is given %d places: choose one", name, len(places))
	}
	at := len(c.names)
	if place.mark != "" {
		if at = slices.Index(c.names, place.mark); at < 0 {
			return fmt.Errorf("middleware %q: there is none called %q in %q", name, place.mark, c.names)
		}
	}
	if slices.Contains(c.names, name) && (place.where != instead || place.mark != name) {
		return fmt.Errorf("middleware %q is in the chain already", name)
	}
	switch place.where {
	case first:
		at = 0
	case after:
		at++
	case instead:
		c.names[at], c.pieces[at] = name, m
		if i := slices.Index(c.lasts, place.mark); i >= 0 {
			c.lasts[i] = name
		}
		return nil
	case last:
		c.lasts = append(c.lasts, name)
	case before:
	default:
		at -= len(c.lasts)
	}
	c.names, c.pieces = slices.Insert(c.names, at, name), slices.Insert(c.pieces, at, m)
	return nil
}

// Remove removes the middleware of that name. It returns an error if there is none.
func (c *Chain[M]) Remove(name string) error {
	at := slices.Index(c.names, name)
	if at < 0 {
		return fmt.Errorf("there is no middleware called %q in %q", name, c.names)
	}
	c.names, c.pieces = slices.Delete(c.names, at, at+1), slices.Delete(c.pieces, at, at+1)
	c.lasts = slices.DeleteFunc(c.lasts, func(last string) bool { return last == name })
	return nil
}
