// Package middleware orders the named middleware of a client or a server.
//
// A library adds its middleware without knowing the others, and a program must be able to place, replace and
// remove each. So each has a name, and a Place relative to other names.
//
// It must never call the middleware: the packages client and launcher do.
package middleware

import (
	"fmt"
	"reflect"
	"slices"
)

// A Place is a position in a List: one of its fields is set. The zero Place is after all middleware that has
// been added, but for those at Last.
type Place struct {
	// First is before all others: the middleware gets a job first, and is the outermost.
	First bool
	// Last is after all others, also after those that are added later without a place.
	Last bool
	// Before and After are right before and right after the middleware of that name.
	Before, After string
	// InPlaceOf is the place of the middleware of that name, which is replaced.
	InPlaceOf string
}

// given returns how many fields are set.
func (p Place) given() int {
	n := 0
	for _, is := range []bool{p.First, p.Last, p.Before != "", p.After != "", p.InPlaceOf != ""} {
		if is {
			n++
		}
	}
	return n
}

// A List is an ordered list of named middleware. The first one is the outermost: it gets a job first. The zero
// List is empty and ready for use.
type List[M any] struct {
	names  []string
	pieces []M
	lasts  []string // those added at the place Last
}

// All returns the middleware in order.
func (l *List[M]) All() []M { return l.pieces }

// Add adds middleware. It changes nothing if it returns an error.
func (l *List[M]) Add(name string, m M, places ...Place) error {
	if value := reflect.ValueOf(m); !value.IsValid() || value.Kind() == reflect.Func && value.IsNil() {
		return fmt.Errorf("middleware %q is nil", name)
	}
	var place Place
	given := 0
	for _, p := range places {
		place = p
		given += p.given()
	}
	if given > 1 || len(places) > 1 {
		return fmt.Errorf("middleware %q is given %d places: choose one", name, max(given, len(places)))
	}
	at := len(l.names) - len(l.lasts)
	if mark := place.Before + place.After + place.InPlaceOf; mark != "" { // only one is set
		if at = slices.Index(l.names, mark); at < 0 {
			return fmt.Errorf("middleware %q: there is none called %q in %q", name, mark, l.names)
		}
	}
	if slices.Contains(l.names, name) && place.InPlaceOf != name {
		return fmt.Errorf("middleware %q is in the chain already", name)
	}
	switch {
	case place.InPlaceOf != "":
		l.names[at], l.pieces[at] = name, m
		if i := slices.Index(l.lasts, place.InPlaceOf); i >= 0 {
			l.lasts[i] = name
		}
		return nil
	case place.First:
		at = 0
	case place.After != "":
		at++
	case place.Last:
		at = len(l.names)
		l.lasts = append(l.lasts, name)
	}
	l.names, l.pieces = slices.Insert(l.names, at, name), slices.Insert(l.pieces, at, m)
	return nil
}

// Remove removes the middleware of that name. It returns an error if there is none.
func (l *List[M]) Remove(name string) error {
	at := slices.Index(l.names, name)
	if at < 0 {
		return fmt.Errorf("there is no middleware called %q in %q", name, l.names)
	}
	l.names, l.pieces = slices.Delete(l.names, at, at+1), slices.Delete(l.pieces, at, at+1)
	l.lasts = slices.DeleteFunc(l.lasts, func(last string) bool { return last == name })
	return nil
}
