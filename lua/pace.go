package lua

import (
	"time"

	"github.com/belayq/belay/driver"
)

const (
	// firstPage is what a Pace asks for before it knows its link: little enough for a link of 1 Mbit/s. Six answers
	// double it to MostBytes.
	firstPage = 64 << 10
	// leastPage is the least that a Pace asks for. A page holds one job at least, whatever its size.
	leastPage = 4 << 10
	// fullRate is how many bytes a second a call may count on while no call has failed; each failure halves it.
	// It is below a link of 100 Mbit/s, so that such a link never strains, and high enough that a call on a dead
	// connection ends soon.
	fullRate = 4 << 20
	// mostStrain bounds the halving, at 32 KiB a second: the slowest link on which jobs still move.
	mostStrain = 7
	// longestRound bounds the part of a timeout that does not depend on bytes. A new connection takes about four
	// round trips, and half a second is a long one.
	longestRound = 4 * time.Second
	// quick is how soon a full page must arrive for the next one to be larger. On a slow link pages stay small enough
	// to let heartbeats through.
	quick = 300 * time.Millisecond
	// wariness is how many full pages must come quickly after a failure before the next one is larger: the page that
	// failed was too large for the server's output buffer perhaps, and will fail again.
	wariness = 16
)

// A Pace fits calls that carry jobs to the link: how many bytes to ask for, and how long to wait. After a call that
// failed, the next one asks for half as much and waits longer; after full pages that came quickly, it asks for more. The
// zero Pace is ready for use. It is for one goroutine at a time.
type Pace struct {
	bytes  int
	strain int // failures that no quick answer has made up for
	wary   int // full pages that must come quickly before the next one is larger
}

// Page is how many bytes of jobs the next call asks for, at most MostBytes.
func (p *Pace) Page() int {
	if p.bytes == 0 {
		p.bytes = firstPage
	}
	return p.bytes
}

// Timeout is how long a call may take that carries so many bytes of jobs, in both directions together. round is what
// a call on a healthy link may take that carries none.
func (p *Pace) Timeout(round time.Duration, carried int) time.Duration {
	round = max(round, min(round<<p.strain, longestRound))
	return round + time.Duration(carried)*time.Second/(fullRate>>p.strain)
}

// Strained reports whether a call has failed that no quick answer has made up for.
func (p *Pace) Strained() bool { return p.strain > 0 }

// Answered takes in that a call carried got bytes of jobs, in both directions together, and that they took so long, of
// the timeout it was allowed. What a round trip takes anyhow is not theirs: the caller leaves it out where it is known.
func (p *Pace) Answered(got int, took, allowed time.Duration) {
	if p.strain > 0 && took < allowed/4 {
		p.strain--
	}
	if got < p.Page() || took >= quick {
		return
	}
	if p.wary > 0 {
		p.wary--
		return
	}
	p.bytes = min(2*p.bytes, MostBytes)
}

// Failed takes in that a call brought no answer, or that its connection ended before: a server closes one that has
// more to send than its client-output-buffer-limit.
func (p *Pace) Failed() {
	p.bytes = max(p.Page()/2, leastPage)
	p.wary = wariness
	p.strain = min(p.strain+1, mostStrain)
}

// Carried is how many bytes these calls send.
func Carried(calls ...driver.Call) (bytes int) {
	for _, call := range calls {
		for _, arg := range call.Args {
			bytes += len(arg)
		}
	}
	return bytes
}
