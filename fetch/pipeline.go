package fetch

import (
	"context"
	"sync"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

// maxInFlight is how many pipelines may be in flight. With one, a round trip of a millisecond settles into
// half batches; more than four brought nothing.
const maxInFlight = 4

// lateReply is after how long without a reply a pipeline does not delay the next one. It carries large jobs, or
// the link is slow.
const lateReply = 100 * time.Millisecond

// flights counts the calls in flight to one keyspace, and has the pace of the link.
type flights struct {
	link       *link.Link
	outbox     chan *pipeline // to the senders; with room for all that may be in flight
	senders    int            // how many there are
	closed     chan struct{}  // ends the senders
	closeOnce  sync.Once
	inFlight   int       // pipelines
	sentAt     time.Time // when the last one was sent
	operations int       // pipelines and waits in flight that may bring jobs
	lastOp     int       // number of operations that have begun so far
}

// begin counts an operation that may bring jobs; when it has ended, operations goes down again.
func (f *flights) begin() {
	f.lastOp++
	f.operations++
}

// A pipeline is the calls that are sent to Redis together: settles, then starts, then takes for the processors
// that are idle after the settles, then reads and smaller calls. Each call has a reply or an error.
type pipeline struct {
	space        *Keyspace
	parts        []part
	reservations []reservation
	may          int  // maximum bytes of jobs that it may bring
	small        bool // it carries no jobs
	trip         *link.Trip
}

// A reservation reserves processors of a share for jobs that a pipeline may bring.
type reservation struct {
	intake *intake
	jobs   int
}

// A part holds some calls of a pipeline, and a function for each of their replies.
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

// reserve reserves processors for the pipeline.
func (p *pipeline) reserve(in *intake, jobs int) {
	if len(p.reservations) == 0 {
		p.space.begin()
	}
	p.reservations = append(p.reservations, reservation{in, jobs})
	in.reserve(jobs)
}

// maySend reports whether another pipeline may be sent. While one is in flight, a further one is sent only for
// its part of the processors. So with a long round trip several pipelines are in flight, and with a short one
// a pipeline carries all results that came during the previous one. Fewer results than that are sent when the
// next reply has come, or is late.
func (k *Keyspace) maySend(now time.Time) bool {
	switch {
	case k.inFlight == 0:
		return true
	case k.inFlight == maxInFlight:
		return false
	}
	return k.ledger.count(finished, awaitingStart) >= max(k.loop.Concurrency()/maxInFlight, 1) || now.Sub(k.sentAt) >= lateReply
}

// lateAt returns when the reply to the last pipeline is late; zero if none is in flight, and if it is late now.
func (f *flights) lateAt(now time.Time) time.Time {
	if late := f.sentAt.Add(lateReply); f.inFlight > 0 && late.After(now) {
		return late
	}
	return time.Time{}
}

// send puts the pipeline in flight.
func (k *Keyspace) send(p *pipeline) {
	calls := make([]driver.Call, 0, len(p.parts)+3)
	for _, part := range p.parts {
		calls = append(calls, part.calls...)
	}
	k.inFlight++
	k.sentAt = time.Now()
	if p.small {
		p.trip = k.link.BeginSmall(calls)
	} else {
		p.trip = k.link.Begin(p.may, calls)
	}
	if k.senders < k.inFlight { // each may be sending
		k.senders++
		go k.sendAll()
	}
	k.outbox <- p
}

// sendAll sends pipelines until the keyspace is closed. The senders stay, because a goroutine for each pipeline
// grew its stack each time, which was 5 % of a worker's time.
func (k *Keyspace) sendAll() {
	for {
		select {
		case p := <-k.outbox:
			// The calls do not depend on the context of a handler or a request: they must arrive also while the
			// process stops.
			p.trip.Send(context.Background())
			k.loop.events <- p
		case <-k.closed:
			return
		}
	}
}

// handle processes the replies.
func (p *pipeline) handle() {
	k := p.space
	k.inFlight--
	k.link.End(p.trip)
	for _, r := range p.reservations {
		r.intake.reserve(-r.jobs)
	}
	if len(p.reservations) > 0 {
		k.operations--
	}
	replies := p.trip.Replies
	for _, part := range p.parts {
		part.handle(replies[:len(part.calls)])
		replies = replies[len(part.calls):]
	}
}

// room returns the maximum number of bytes in one settle, which only its last job may exceed. On a slow link
// the number is small, so that heartbeats can be sent between two settles.
func (k *Keyspace) room() int {
	if k.loop.quiet { // requeued jobs go in one settle, in order
		return lua.MaxBytes
	}
	return k.link.Page()
}

// jobs is the loop's name in reports.
const jobs = "jobs"

// An outage begins when a call fails and ends when a reply arrives. The loop sends nothing until the rest is
// over, and then only the probe (see composeProbe). Package link has the delays and the log lines. Its Link
// cannot replace this state: it counts every reply of the server as a success, also "LOADING" or "READONLY".
type outage struct {
	away  bool
	until time.Time // when the rest ends
	rest  link.Backoff
	// denied means that a call was denied access, and none that carries jobs has succeeded since.
	denied bool
}

func (o *outage) resting(now time.Time) bool { return now.Before(o.until) }

// fail records a failed call. Several failures at one instant (of a pipeline) lengthen the rest once.
func (k *Keyspace) fail(err error) {
	now, o := time.Now(), &k.outage
	o.away, o.denied, k.doubtedAt = true, o.denied || driver.Denial(err) != "", now
	k.reconcile.due = true // to find jobs of a lost reply, and because this reading tries Redis again
	k.ledger.moveAll(finished, unsent)
	k.report.Fail(jobs, err)
	if driver.TooManyClients(err) {
		k.tooManyClients = true
		if k.TooManyClients != nil {
			k.TooManyClients()
		}
	}
	if o.resting(now) {
		return
	}
	o.until = now.Add(o.rest.Next())
}

// succeed records that Redis answers a call that carries jobs.
func (k *Keyspace) succeed() {
	if k.outage.denied {
		k.outage.denied, k.blockedAt = false, time.Time{} // settles that were denied may be permitted again, too
		k.report.Succeed(jobs)
	}
	k.reach()
}

// reach records that Redis answers.
func (k *Keyspace) reach() {
	k.report.Answered()
	if !k.outage.away {
		k.outage.rest.Reset()
		return
	}
	k.report.Reach(jobs)
	k.outage = outage{}
	k.reconcile.due = true
	k.readQueuesAgain()
}

// probed records that Redis answered a call that carries no jobs. Only a call with jobs that succeeds resets
// the rest and ends a denial; if the next one fails again, the rest grows.
func (k *Keyspace) probed() {
	rest, denied := k.outage.rest, k.outage.denied
	k.reach()
	k.outage.rest, k.outage.denied = rest, denied
	k.reconcile.due = false // the probe has just read the lengths
}
