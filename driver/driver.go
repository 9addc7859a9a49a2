package driver

import (
	"context"
	"time"
)

// A Call is one thing asked of Redis: a plain command, or, when Script is set, that script.
// A Call is a value; it may be sent again, and nothing in this package ever does so by itself.
type Call struct {
	// Script to run with Keys and Args. When nil, Args is the whole command, its name first.
	Script *Script
	// Keys are the script's KEYS, every one declared.
	Keys []string
	// Args are the script's ARGV, or the command's words.
	Args []string
}

// Command is the Call of a plain command: Command("GET", "a").
func Command(words ...string) Call { return Call{Args: words} }

// Name is the script's name or the command's, for messages.
func (c Call) Name() string {
	switch {
	case c.Script != nil:
		return c.Script.Name()
	case len(c.Args) > 0:
		return c.Args[0]
	}
	return ""
}

// A Reply is Redis' answer to one Call: a Value, or an Err that says how sure the failure is (see Certain).
type Reply struct {
	// Value is nil, a string, an int64, or a []any of these. A nil inside is Redis' nil.
	Value any
	Err   error
}

// Client is what Belay asks of a connection to Redis. Its methods may be called from any goroutine.
type Client interface {
	// Do sends the calls as one pipeline and answers each, in order: len(replies) == len(calls).
	//
	// Each call is executed at most once, whatever happens to the connection. A call whose answer did not
	// come has an error for which Certain is false; calls answered before the cut keep their answers. A
	// script that the server did not know is loaded and run, and only that one is sent again: after the rest
	// of the pipeline, and in order among several. A call that Check refuses is not sent; the others are. Do
	// never panics over what its calls contain.
	//
	// The deadline of ctx ends a Do, and a connection that was silent until then is not used again. Without one
	// an adapter sets its own, of some seconds. Cancelling ctx ends no Do that is under way.
	Do(ctx context.Context, calls ...Call) []Reply

	// Lane opens further connections to the same server, at most conns of them, shared with nobody: what is
	// slow on one lane delays no other. Each Do of a lane may be under way at once up to conns (or, for a
	// client that pipelines, on one connection in order). Nothing is dialled before the first use. The caller
	// closes it.
	Lane(conns int) (Client, error)

	// Waiter makes one that blocks on a connection of its own, dialled at its first Wait; its Release goes
	// over this Client. The caller closes it.
	Waiter() (Waiter, error)

	// Close ends the connections that this Client opened: none of those that a user handed in.
	Close() error
}

// A Waiter waits for a job on one connection that serves nothing else. Wait is for one goroutine at a time;
// Release and Close may be called from others.
type Waiter interface {
	// Wait moves the tail of the list from to the head of the list to, waiting up to limit for one to come
	// (BLMOVE from to RIGHT LEFT). ok is false when none came or the wait was released: then nothing was moved.
	// On an error for which Certain is false something may have been moved that nobody has read.
	//
	// Wait reads for at most limit plus WaitGrace, or longer while its reply arrives without a pause of
	// WaitGrace. So neither a stopped server nor a server whose clock was set back can block it, and a large
	// payload can arrive over a slow link. Ending ctx does not end it (that could lose what is on its way);
	// Release does.
	Wait(ctx context.Context, from, to string, limit time.Duration) (payload string, ok bool, err error)

	// Release asks the server to end a Wait under way and says whether it did. False with a nil error may
	// mean that the Wait has not even arrived there yet, so call it until Wait has returned. ErrNoRelease:
	// this server cannot (miniredis, a tight ACL); waits should then be short.
	Release(ctx context.Context) (bool, error)

	// Close ends the connection. A Wait under way returns with an uncertain error.
	Close() error
}
