package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// A Middleware sees each job before it is checked and sent, and may change it: queue, args, tags, fields. The
// class, queue and JID are set; slices are the job's own to append to or replace, not to write into.
//
// If it returns Refuse's error, the job is not pushed and the receipt says so; any other error fails the
// push. It does not wrap the sending: many jobs are sent in one call, so no moment belongs to one job alone.
// Sidekiq's middleware does not either, whatever it looks like: there, too, the push follows after the last
// middleware has returned.
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

// Use adds middleware under a name, at a place; without one it comes after what was added before. It panics
// over a name that is taken, over a place that does not exist, and after the first push.
func (c *Client) Use(name string, m Middleware, at ...Place) {
	if c.pushed.Load() {
		panic("belay: Client.Use " + name + " after the first push: add middleware before")
	}
	if err := c.middleware.Add(name, m, at...); err != nil {
		panic("belay: Client.Use: " + err.Error())
	}
}

// A Place says where in a Chain a piece of middleware goes.
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

// First is the place before all others: the middleware sees a job first.
func First() Place { return Place{where: first} }

// Last is the place after all others, also after those that are added later without a place.
func Last() Place { return Place{where: last} }

// Before is the place right before the middleware of that name.
func Before(name string) Place { return Place{before, name} }

// After is the place right after the middleware of that name.
func After(name string) Place { return Place{after, name} }

// InPlaceOf is the place of the middleware of that name, which is removed.
func InPlaceOf(name string) Place { return Place{instead, name} }

// A Chain is middleware in its order, each piece under a name. The first piece is the outermost: it sees a
// job first. The zero Chain is empty and ready.
type Chain[M any] struct {
	names  []string
	pieces []M
	lasts  int // how many were added at the place Last
}

// All returns the pieces in order.
func (c *Chain[M]) All() []M { return c.pieces }

// Add adds a piece. It changes nothing when it returns an error.
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
		return nil
	case last:
		c.lasts++
	case before:
	default:
		at -= c.lasts
	}
	c.names, c.pieces = slices.Insert(c.names, at, name), slices.Insert(c.pieces, at, m)
	return nil
}
