package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

// A failover loses what the primary has acknowledged and no replica has received. A durable push ends with
// WAIT, which asks for replicas that have it. A WAIT stops its connection, so these pushes have a connection of
// their own, and one call is under way there at a time. The pushes that come meanwhile share the next one and
// its WAIT: a replica that is away delays each push by two timeouts at most, however many there are. Only those
// with another timeout, or another script, have a turn of their own.

const (
	// DefaultReplicaTimeout is how long a durable push waits for its replicas. A replica in the same region
	// confirms within some milliseconds; one that takes a second is away, or too far behind to count on.
	DefaultReplicaTimeout = time.Second
	// MaxReplicaTimeout is the longest such wait, because the pushes behind it wait too.
	MaxReplicaTimeout = time.Minute
	// ReplicasUnknown is Receipt.Replicas if nothing is known about the replicas.
	ReplicasUnknown = -1
)

// ErrReplicas means that fewer replicas than wanted have confirmed the push in time. The job is stored and
// runs, but a failover to another replica may lose it. To push it again would store a second job, unless the
// first has a Key.
var ErrReplicas = errors.New("belay: stored, but not on as many replicas as wanted: a failover may lose the job")

// A durability is how many replicas must have a push, and how long it waits for them. The zero durability waits
// for none.
type durability struct {
	replicas int
	timeout  time.Duration
}

// durability returns that of a job, or the client's where the job sets none.
func (c *Client) durability(replicas int, timeout time.Duration) durability {
	replicas = cmp.Or(replicas, c.cfg.Replicas)
	if replicas == 0 {
		return durability{}
	}
	return durability{replicas: replicas, timeout: cmp.Or(timeout, c.cfg.ReplicaTimeout)}
}

// with returns the durability of two jobs that share a call: neither gets less than it wants.
func (d durability) with(other durability) durability {
	return durability{max(d.replicas, other.replicas), max(d.timeout, other.timeout)}
}

// checkDurability checks the fields of a job or of a client.
func checkDurability(replicas int, timeout time.Duration) error {
	switch {
	case replicas < 0:
		return fmt.Errorf("%d replicas: leave them out for none", replicas)
	case timeout != 0 && (timeout < time.Millisecond || timeout > MaxReplicaTimeout):
		return fmt.Errorf("a replica timeout of %v: it must be at least 1ms, and at most %v", timeout, MaxReplicaTimeout)
	}
	return nil
}

// A confirmed is how many replicas have a push, or ReplicasUnknown, and the ErrReplicas if that is too few. It
// is zero for a push that waits for none.
type confirmed struct {
	replicas int
	err      error
}

// outcome reads the reply of WAIT. A cause is text in the error: the push itself was not refused.
func (d durability) outcome(reply driver.Reply) confirmed {
	got, answered := reply.Value.(int64)
	switch {
	case reply.Err == nil && answered && int(got) >= d.replicas:
		return confirmed{replicas: int(got)}
	case reply.Err == nil && answered:
		return confirmed{int(got), fmt.Errorf("%w (%d of %d within %v)", ErrReplicas, got, d.replicas, d.timeout.Round(time.Millisecond))}
	}
	why := fmt.Sprintf("WAIT: %v", reply.Err)
	if advice := driver.Denial(reply.Err); advice != "" {
		why += ": " + advice
	}
	return confirmed{ReplicasUnknown, fmt.Errorf("%w (how many have it is unknown: %s)", ErrReplicas, why)}
}

// durable sends the durable pushes of a client.
type durable struct {
	link *link.Link       // the client's, for its estimate of the time that a call takes
	lane *driver.OnDemand // their connection
	turn chan struct{}    // a lock: it has one element while a call is under way

	mu      sync.Mutex
	waiting []*entry // in the order in which they came
}

func newDurable(c driver.Client, l *link.Link) *durable {
	return &durable{link: l, lane: driver.NewOnDemand(c, driver.IdleFor), turn: make(chan struct{}, 1)}
}

// An entry is a durable push that waits for its turn.
type entry struct {
	durability
	calls []driver.Call
	bytes int
	once  bool      // it can be sent again, so it does not wait longer for a reply than it must
	until time.Time // the deadline of its context; zero for none
	sent  chan struct{}
	// The fields below are set when sent is closed.
	reply     driver.Reply // to the last of its calls
	confirmed confirmed
}

// push sends calls, which carry so many bytes of jobs, and waits for replicas.
func (d *durable) push(ctx context.Context, wanted durability, bytes int, once bool, calls []driver.Call) (driver.Reply, confirmed) {
	e := &entry{durability: wanted, calls: calls, bytes: bytes, once: once, sent: make(chan struct{})}
	e.until, _ = ctx.Deadline()
	if err := ctx.Err(); err != nil {
		return driver.Reply{Err: &driver.NotSentError{Err: err}}, confirmed{}
	}
	d.mu.Lock()
	d.waiting = append(d.waiting, e)
	d.mu.Unlock()
	for {
		select {
		case <-e.sent:
			return e.reply, e.confirmed
		case d.turn <- struct{}{}:
			d.sendNext()
		case <-ctx.Done():
			if d.withdraw(e) {
				return driver.Reply{Err: &driver.NotSentError{Err: ctx.Err()}}, confirmed{}
			}
			<-e.sent // as any push: a cancellation does not end a call that is under way
			return e.reply, e.confirmed
		}
	}
}

// withdraw removes an entry that was not sent yet, and reports whether it did.
func (d *durable) withdraw(e *entry) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := slices.Index(d.waiting, e)
	if at >= 0 {
		d.waiting = slices.Delete(d.waiting, at, at+1)
	}
	return at >= 0
}

// sendNext sends the next call, if an entry waits, and passes the turn on.
func (d *durable) sendNext() {
	batch := d.take(time.Now())
	defer func() {
		for _, e := range batch {
			close(e.sent)
		}
		<-d.turn
	}()
	if len(batch) > 0 {
		d.send(batch)
	}
}

// take returns the entries for one call: the first that waits, and those behind it with its timeout. Its WAIT
// is for the most replicas that one of them wants, so an entry that wants fewer waits no longer than its
// timeout. They have one script or none. If Redis did not have one script of several, that one and WAIT would
// be sent again, perhaps to another server, and WAIT would count the replicas of that server only.
func (d *durable) take(now time.Time) (batch []*entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	bytes := 0
	d.waiting = slices.DeleteFunc(d.waiting, func(e *entry) bool {
		first := e
		if len(batch) > 0 {
			first = batch[0]
		}
		joins := e == first || e.timeout == first.timeout && e.script() == first.script() &&
			!e.hurried(now) && !first.hurried(now) && len(batch) < lua.MaxItems && bytes+e.bytes <= lua.MaxBytes
		if joins {
			batch, bytes = append(batch, e), bytes+e.bytes
		}
		return joins
	})
	return batch
}

// script returns the script of a push, or nil for one that needs none.
func (e *entry) script() *driver.Script { return e.calls[len(e.calls)-1].Script }

// hurried reports whether the deadline of the entry leaves it less time than it would wait for replicas. It is
// sent alone, or the others would wait less than they want.
func (e *entry) hurried(now time.Time) bool { return !e.until.IsZero() && e.patience(now) < e.timeout }

// patience returns how long the entry can wait for replicas: half of the time that is left, because the replies
// of a call that misses its deadline are lost, that of the push with them.
func (e *entry) patience(now time.Time) time.Duration {
	if e.until.IsZero() {
		return e.timeout
	}
	return min(e.timeout, e.until.Sub(now)/2)
}

// send sends entries as one call, and sets their outcome.
func (d *durable) send(batch []*entry) {
	now := time.Now()
	wanted := durability{batch[0].replicas, batch[0].patience(now)}
	var calls []driver.Call
	var until time.Time
	bytes, once := 0, false
	for _, e := range batch {
		calls, bytes, once = append(calls, e.calls...), bytes+e.bytes, once || e.once
		wanted.replicas = max(wanted.replicas, e.replicas)
		if until.IsZero() || !e.until.IsZero() && e.until.Before(until) {
			until = e.until
		}
		e.reply.Err = &driver.UncertainError{Err: errBrokenOff} // until there is a reply
	}
	// The timeout counts twice: WAIT is sent again behind a script that Redis did not have.
	if usual := now.Add(d.link.Allowed(bytes) + 2*wanted.timeout); until.IsZero() || once && usual.Before(until) {
		until = usual
	}
	calls = append(calls, driver.AwaitReplicas(wanted.replicas, wanted.timeout))
	replies := d.lane.Do(driver.Until(context.Background(), until), calls...)
	waited := replies[len(replies)-1]
	for _, e := range batch {
		e.reply, replies = replies[len(e.calls)-1], replies[len(e.calls):]
		e.confirmed = durability{e.replicas, wanted.timeout}.outcome(waited)
	}
}
