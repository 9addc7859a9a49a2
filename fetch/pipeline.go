package fetch

import (
	"context"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

const (
	// mostInFlight is how many pipelines may be in flight. With one, a round trip of a millisecond settles
	// into half batches; more than four brought nothing.
	mostInFlight = 4
	// longestProbe is how long a probe may take after others have failed: six round trips of half a second,
	// enough to connect and to be answered. With a rest, work still resumes within five seconds where one
	// began on a dead connection.
	longestProbe = 3 * time.Second
)

// flights is what is in flight to one keyspace, and what is known of the link.
type flights struct {
	inFlight   int // pipelines
	carrying   int // bytes that they send or may bring
	lastOp     int64
	operations map[int64]bool // those in flight that may bring jobs, pipelines and waits

	pace        lua.Pace
	probing     lua.Pace  // of pipelines without jobs: where a new connection takes long, these wait longer too
	lastFailure error     // of a pipeline with jobs, until it is known whether Redis was away
	slowAt      time.Time // when a slow link was last logged
}

// begin numbers an operation that may bring jobs; end closes it.
func (f *flights) begin() int64 {
	f.lastOp++
	f.operations[f.lastOp] = true
	return f.lastOp
}

func (f *flights) end(op int64) { delete(f.operations, op) }

// A pipeline is what goes to Redis at once: settles, then starts, then takes for the processors that are
// idle once the settles have landed, then reads and smaller calls. Everything in it is answered,
// or known not to be.
type pipeline struct {
	space    *keyspace
	parts    []part
	promises []promise
	op       int64 // the operation that its promises are
	replies  []driver.Reply

	may     int  // bytes of jobs that it may bring
	carried int  // bytes that it sends, and may bring
	small   bool // it carries no jobs: how it fares says nothing of what the link carries
	// took is how long it was in flight, allowed how long it might have been.
	took, allowed time.Duration
}

// A promise is processors of a capsule, for jobs that a pipeline may bring.
type promise struct {
	capsule *capsule
	jobs    int
}

// A part is some calls of a pipeline and what is done with their replies, one each.
type part struct {
	calls  []driver.Call
	handle func(replies []driver.Reply)
}

// add puts one more call into the pipeline.
func (p *pipeline) add(call driver.Call, handle func(reply driver.Reply)) {
	p.addAll([]driver.Call{call}, func(replies []driver.Reply) { handle(replies[0]) })
}

// addAll puts more calls into the pipeline.
func (p *pipeline) addAll(calls []driver.Call, handle func(replies []driver.Reply)) {
	p.parts = append(p.parts, part{calls, handle})
}

// promise promises processors to the pipeline.
func (p *pipeline) promise(c *capsule, jobs int) {
	if p.op == 0 {
		p.op = p.space.begin()
	}
	p.promises = append(p.promises, promise{c, jobs})
	c.promised += jobs
}

// maySend reports whether another pipeline may be sent. Beside one that is in flight, a further one goes
// only with its share of the processors, so that over a long link all of them are in the air, and over a
// short one a pipeline carries what came back during the last. What is too little for a share goes when the
// next answer comes.
func (k *keyspace) maySend() bool {
	if k.inFlight == 0 {
		return true
	}
	return k.inFlight < mostInFlight && k.ledger.count(finished, awaitingStart) >= max(k.loop.Concurrency()/mostInFlight, 1)
}

// send puts the pipeline in flight.
func (k *keyspace) send(p *pipeline) {
	calls := make([]driver.Call, 0, len(p.parts)+3)
	for _, part := range p.parts {
		calls = append(calls, part.calls...)
	}
	k.inFlight++
	// All of them share one link, and over some clients one connection: what is in flight goes first.
	p.carried = lua.Carried(calls...) + p.may
	k.carrying += p.carried
	p.allowed = k.pace.Timeout(k.cfg.CallTimeout, k.carrying)
	if p.small {
		p.allowed = max(p.allowed, min(k.probing.Timeout(k.cfg.CallTimeout, k.carrying), longestProbe))
	}
	go func() {
		// Calls belong to no handler and no request: what they carry must arrive also when the process is
		// being stopped.
		sentAt := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), p.allowed)
		defer cancel()
		p.replies = k.lane.Do(ctx, calls...)
		p.took = time.Since(sentAt)
		k.loop.events <- p
	}()
}

// handle takes in the replies.
func (p *pipeline) handle() {
	k := p.space
	k.inFlight--
	k.carrying -= p.carried
	k.learnPace(p)
	if p.op != 0 {
		for _, promised := range p.promises {
			promised.capsule.promised -= promised.jobs
		}
		k.end(p.op)
	}
	replies := p.replies
	for _, part := range p.parts {
		part.handle(replies[:len(part.calls)])
		replies = replies[len(part.calls):]
	}
}

// learnPace takes in how the pipeline fared. Several that fail in one outage count once.
func (k *keyspace) learnPace(p *pipeline) {
	got := 0
	for _, reply := range p.replies {
		if reply.Err == nil {
			got += lua.Brought(reply.Value)
			continue
		}
		if driver.Certain(reply.Err) {
			continue
		}
		switch {
		case p.small:
			k.lastFailure = nil // Redis itself is away, or a new connection takes longer than this
			if p.took >= p.allowed {
				k.probing.Failed()
			}
		case k.outage.since.IsZero():
			k.pace.Failed()
			k.lastFailure = reply.Err
		}
		return
	}
	if p.small {
		k.probing.Eased(p.took, p.allowed)
	}
	k.pace.Answered(got, p.took, p.allowed)
}

// room returns how many bytes go into one settle at most, but for the last job's. On a slow link they are
// few, so that heartbeats come through between two settles.
func (k *keyspace) room() int {
	if k.loop.quiet { // what is requeued goes in one settle, in order
		return lua.MostBytes
	}
	return k.pace.Page()
}
