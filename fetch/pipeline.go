package fetch

import (
	"context"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// mostInFlight is how many pipelines may be in flight. With one, a round trip of a millisecond settles into
// half batches; more than four brought nothing.
const mostInFlight = 4

// flights is what is in flight to one keyspace, and what is known of the link.
type flights struct {
	link       lua.Link
	inFlight   int // pipelines
	operations int // pipelines and waits in flight that may bring jobs
	lastOp     int // how many of those have begun
}

// begin counts an operation that may bring jobs; when it has ended, operations goes down again.
func (f *flights) begin() {
	f.lastOp++
	f.operations++
}

// A pipeline is what goes to Redis at once: settles, then starts, then takes for the processors that are
// idle once the settles have landed, then reads and smaller calls. Everything in it is answered,
// or known not to be.
type pipeline struct {
	space    *Keyspace
	parts    []part
	promises []promise
	may      int  // bytes of jobs that it may bring
	small    bool // it carries no jobs
	trip     *lua.Trip
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
	if len(p.promises) == 0 {
		p.space.begin()
	}
	p.promises = append(p.promises, promise{c, jobs})
	c.promised += jobs
}

// maySend reports whether another pipeline may be sent. Beside one that is in flight, a further one goes
// only with its share of the processors, so that over a long link all of them are in the air, and over a
// short one a pipeline carries what came back during the last. What is too little for a share goes when the
// next answer comes.
func (k *Keyspace) maySend() bool {
	if k.inFlight == 0 {
		return true
	}
	return k.inFlight < mostInFlight && k.ledger.count(finished, awaitingStart) >= max(k.loop.Concurrency()/mostInFlight, 1)
}

// send puts the pipeline in flight.
func (k *Keyspace) send(p *pipeline) {
	calls := make([]driver.Call, 0, len(p.parts)+3)
	for _, part := range p.parts {
		calls = append(calls, part.calls...)
	}
	k.inFlight++
	if p.small {
		p.trip = k.link.BeginSmall(calls)
	} else {
		p.trip = k.link.Begin(p.may, calls)
	}
	go func() {
		// Calls belong to no handler and no request: what they carry must arrive also when the process is
		// being stopped.
		p.trip.Send(context.Background())
		k.loop.events <- p
	}()
}

// handle takes in the replies.
func (p *pipeline) handle() {
	k := p.space
	k.inFlight--
	k.link.End(p.trip)
	for _, promised := range p.promises {
		promised.capsule.promised -= promised.jobs
	}
	if len(p.promises) > 0 {
		k.operations--
	}
	replies := p.trip.Replies
	for _, part := range p.parts {
		part.handle(replies[:len(part.calls)])
		replies = replies[len(part.calls):]
	}
}

// room returns how many bytes go into one settle at most, but for the last job's. On a slow link they are
// few, so that heartbeats come through between two settles.
func (k *Keyspace) room() int {
	if k.loop.quiet { // what is requeued goes in one settle, in order
		return lua.MostBytes
	}
	return k.link.Page()
}
