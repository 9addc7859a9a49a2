package driver

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Call is one request to Redis: a plain command, or, if Script is set, that script. The caller may send
// it again; this package never does.
type Call struct {
	// Script runs with Keys and Args. If it is nil, Args is the whole command, its name first.
	Script *Script
	// Keys are the script's KEYS. Every key is declared.
	Keys []string
	// Args are the script's ARGV, or the command's words.
	Args []string
	// Announces marks a plain command about what scripts of its pipeline did. If one of them had to be loaded
	// first, it ran after this command, so the command is sent once more, behind it and on the same connection.
	Announces bool

	// blocks: the command is one of unfit and may be sent all the same.
	blocks bool
}

// Command returns the Call of a plain command: Command("GET", "a").
func Command(words ...string) Call { return Call{Args: words} }

// AwaitReplicas returns the last Call of a pipeline that must survive a failover. Its reply is how many
// replicas have everything that the primary had executed when it executed the call before this one; it comes as
// soon as they are replicas, or after timeout, in whole milliseconds.
//
// It blocks its connection for up to timeout, so send it over a lane that nothing else uses. Send it in the
// pipeline of the calls that it is about: alone on a new connection, it counts every replica, whatever that
// has.
func AwaitReplicas(replicas int, timeout time.Duration) Call {
	call := Command("WAIT", strconv.Itoa(replicas), strconv.FormatInt(max(timeout.Milliseconds(), 1), 10)) // 0 would be for ever
	call.Announces, call.blocks = true, true
	return call
}

// Name returns the name of the script or of the command, for messages.
func (c Call) Name() string {
	switch {
	case c.Script != nil:
		return c.Script.Name()
	case len(c.Args) > 0:
		return c.Args[0]
	}
	return ""
}

// unfit are the commands that must not be sent on a shared connection: they change its state for later
// callers (subscriptions, a selected database, an open transaction), or block it.
var unfit = map[string]bool{
	"SUBSCRIBE": true, "PSUBSCRIBE": true, "SSUBSCRIBE": true,
	"UNSUBSCRIBE": true, "PUNSUBSCRIBE": true, "SUNSUBSCRIBE": true,
	"MONITOR": true, "SYNC": true, "PSYNC": true, "QUIT": true, "RESET": true,
	"HELLO": true, "AUTH": true, "SELECT": true,
	"MULTI": true, "EXEC": true, "DISCARD": true, "WATCH": true, "UNWATCH": true,
	"BLMOVE": true, "BLPOP": true, "BRPOP": true, "BRPOPLPUSH": true, "BLMPOP": true,
	"BZPOPMIN": true, "BZPOPMAX": true, "BZMPOP": true, "WAIT": true, "WAITAOF": true,
}

// Check returns an error, a *NotSentError, if the call must not be sent through Client.Do: it has no command,
// or one that blocks (use a Waiter, or AwaitReplicas) or changes the connection (use a script for a
// transaction).
func (c Call) Check() error {
	if c.Script != nil {
		return nil
	}
	if len(c.Args) == 0 || c.Args[0] == "" {
		return &NotSentError{Err: fmt.Errorf("driver: a call without a command")}
	}
	name := strings.ToUpper(c.Args[0])
	if name == "HELLO" && len(c.Args) == 1 {
		return nil // it only asks
	}
	if unfit[name] && !c.blocks || name == "CLIENT" && len(c.Args) > 1 && strings.EqualFold(c.Args[1], "REPLY") {
		return &NotSentError{Err: fmt.Errorf("driver: %s cannot be sent over a shared connection", name)}
	}
	return nil
}

// A Reply is Redis' reply to one Call: a Value, or an Err (see Certain).
type Reply struct {
	// Value is nil, a string, an int64, or a []any of these. A nil inside is Redis' nil.
	Value any
	Err   error
}

// Size returns how many bytes of text the value of a reply holds.
func Size(value any) (bytes int) {
	switch value := value.(type) {
	case string:
		return len(value)
	case []any:
		for _, part := range value {
			bytes += Size(part)
		}
	}
	return bytes
}

// Client is a connection to Redis, as Belay needs it. Its methods are safe for concurrent use.
type Client interface {
	// Do sends the calls as one pipeline and returns their replies in order: len(replies) == len(calls).
	//
	// Each call is executed at most once (but see Call.Announces), whatever happens to the connection. A call
	// without a reply gets an error for which Certain is false; calls that were answered before the
	// connection broke keep their replies. A script that the server does not have is loaded and run, and only
	// that script is sent again: after the rest of the pipeline, and several of them in order. A call that
	// Check refuses is not sent; the others are. Do never panics because of the content of its calls.
	//
	// A Do ends at the deadline of ctx, and a connection that was silent until then is not used again.
	// Without a deadline the adapter sets one of some seconds. Cancelling ctx does not end a Do that has
	// begun.
	Do(ctx context.Context, calls ...Call) []Reply

	// Lane returns a Client with at most conns further connections to the same server. No other Client uses
	// them, so a slow call on one lane delays no other lane. Up to conns calls of Do run at once on a lane
	// (a client that pipelines uses one connection, in order). Nothing is dialled before the first use. The
	// caller closes the lane.
	Lane(conns int) (Client, error)

	// Waiter returns a Waiter, which blocks on a connection of its own, dialled by its first Wait. Its
	// Release uses this Client. The caller closes it.
	Waiter() (Waiter, error)

	// Listen subscribes to channels on a connection of its own. It blocks until ctx ends, the connection fails,
	// or a call of this Client, its lanes or its waiters finds that another server has replaced this one; and
	// it returns the reason. It calls subscribed when the server has confirmed all of them, and received with
	// each message, in order. Earlier messages are lost, so after subscribed the caller reads once more what
	// the messages are about. The callbacks must not block. A connection that is silent for probe is probed,
	// and given up if it stays silent for as long again; with 0 it is never probed, and a connection whose
	// server has silently disappeared ends with ctx only.
	Listen(ctx context.Context, channels []string, probe time.Duration, subscribed func(), received func(message string)) error

	// Close closes the connections that this Client opened, and none that a user passed in.
	Close() error
}

// Until returns a context with a deadline, at which it does not end. It needs no timer, because an adapter
// reads the deadline of a Do, and a client library that of a dial.
func Until(ctx context.Context, at time.Time) context.Context { return until{ctx, at} }

type until struct {
	context.Context
	at time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.at, true }

// A Waiter waits for a job on a connection of its own. Wait is for one goroutine at a time; Release and
// Close may be called from others.
type Waiter interface {
	// Wait moves the tail of the list from to the head of the list to, and waits up to limit for an entry
	// (BLMOVE from to RIGHT LEFT). ok is false if none came or the wait was released: then nothing was
	// moved. After an error for which Certain is false, an entry may have been moved and not read.
	//
	// Wait reads for at most limit plus WaitGrace, or longer while its reply arrives without a pause of
	// WaitGrace. So a stopped server, or one whose clock was set back, cannot block it, and a large payload
	// can arrive over a slow link. Ending ctx does not end a Wait, because its entry could be lost; Release
	// does.
	Wait(ctx context.Context, from, to string, limit time.Duration) (payload string, ok bool, err error)

	// Release asks the server to end the current Wait and reports whether it did. False with a nil error
	// may mean that the Wait has not reached the server yet, so call Release until Wait has returned.
	// ErrNoRelease means that this server cannot release a wait (miniredis, a tight ACL); waits should then
	// be short.
	Release(ctx context.Context) (bool, error)

	// Close closes the connection. The current Wait returns with an uncertain error.
	Close() error
}

const (
	// DialTimeout bounds an adapter's attempt to connect. Within a second a lost SYN is sent again; a server
	// that has not accepted after two seconds is away, and an error is better than a late heartbeat.
	DialTimeout = 2 * time.Second
	// CallTimeout is the deadline of a Do whose context has none.
	CallTimeout = 5 * time.Second
	// ListenProbe is how long the connection of a Listen for messages may be silent before the server is asked
	// to answer.
	ListenProbe = 5 * time.Second
	// BufferSize is the size of a connection's buffers: a usual pipeline (a hundred jobs of some hundred
	// bytes) fits into one system call.
	BufferSize = 32 << 10
	// WaiterBufferSize is small because one job comes at a time, and there are as many waiters as queues.
	WaiterBufferSize = 8 << 10
)
