package link

import (
	"context"
	"time"

	"github.com/belayq/belay/driver"
)

const (
	// MaxPage is the largest page size of a Pace, in bytes. It is bounded because Redis does nothing else while
	// a script reads a page.
	MaxPage = 4 << 20
	// firstPage is the first page size of a Pace: small enough for a link of 1 Mbit/s. After it was doubled six
	// times it is MaxPage.
	firstPage = 64 << 10
	// minPage is the least that a Pace asks for. A page holds one job at least, whatever its size.
	minPage = 4 << 10
	// fullRate is the bandwidth that a timeout assumes, in bytes a second, while no call has failed; each
	// failure halves it. It is below 100 Mbit/s, so that a link of that bandwidth never counts as slow, and
	// high enough that a call on a dead connection ends soon.
	fullRate = 4 << 20
	// maxStrain bounds the halving, at 32 KiB a second: the slowest link on which jobs still move.
	maxStrain = 7
	// MaxRound bounds the part of a timeout that does not depend on bytes: six round trips of half a
	// second. A new connection takes about four. With more, work would not resume within five seconds after a
	// call that began on a dead connection.
	MaxRound = 3 * time.Second
	// maxWithin is the maximum deadline of Within after missed ones: five round trips of half a second, enough
	// to connect and get a reply. With longer ones, heartbeats would wait for a failed primary while another
	// one is promoted.
	maxWithin = 2500 * time.Millisecond
	// quick is how much longer than an empty call a full page may take so that the next page is larger. So a
	// page is at most what the link carries in twice that time, and a heartbeat that waits behind four pages
	// still arrives within a lease of a second and a half. With half of it, pages would stay small on a busy
	// machine.
	quick = 100 * time.Millisecond
	// maxGap bounds how many full pages come before the next larger one after larger pages have failed: a
	// server that closes connections over its client-output-buffer-limit does so again at the same size.
	maxGap = 15
)

// A Pace adapts calls that carry jobs to the link: how many bytes they ask for, and how long they wait.
// After a failed call, the next one asks for half as much and waits longer. After full pages that arrived
// quickly, it asks for more. The zero Pace is ready for use. A Pace must not be used concurrently.
type Pace struct {
	bytes  int
	strain int           // failures, less the quick replies since
	round  time.Duration // recent duration of a call without jobs
	full   int           // full pages of this size that came quickly
	gap    int           // how many full pages come before the next larger one
	failed int           // the size of the last page that failed
}

// Page returns how many bytes of jobs the next call asks for, at most MaxPage.
func (p *Pace) Page() int {
	if p.bytes == 0 {
		p.bytes = firstPage
	}
	return p.bytes
}

// Timeout returns the timeout of a call that carries this many bytes of jobs, in both directions together.
// round is the timeout of a call without jobs on a healthy link.
func (p *Pace) Timeout(round time.Duration, carried int) time.Duration {
	round = max(round, min(round<<p.strain, MaxRound))
	return round + time.Duration(carried)*time.Second/(fullRate>>p.strain)
}

// Patience returns the timeout of a call that carries this many bytes of jobs and is not repeated after a
// failure: it allows for the slowest link on which jobs still move. round is the timeout of a call without
// jobs.
func Patience(round time.Duration, carried int) time.Duration {
	return round + time.Duration(carried)*time.Second/(fullRate>>maxStrain)
}

// Strained reports whether there have been fewer quick replies than failures, so that timeouts are longer.
func (p *Pace) Strained() bool { return p.strain > 0 }

// Answered records that a call with the timeout allowed was answered after took; its request and its reply had
// got bytes of jobs together. A call without jobs (of lengths) measures the round trip, but not the bandwidth.
func (p *Pace) Answered(got int, took, allowed time.Duration) {
	p.learnRound(got, took)
	if got == 0 {
		return
	}
	p.Eased(took, allowed)
	if got < p.Page() || took-p.round >= quick {
		return
	}
	if p.bytes >= p.failed {
		p.gap = 0
	}
	if p.full++; p.full > p.gap {
		p.bytes, p.full = min(2*p.bytes, MaxPage), 0
	}
}

// learnRound records how long a round trip may be. The first call includes the opening of its connection, so
// every shorter call replaces it, whatever it carried; otherwise each page would seem quick by comparison.
func (p *Pace) learnRound(got int, took time.Duration) {
	little := got < minPage
	switch {
	case little && p.round == 0, p.round > 0 && took < p.round:
		p.round = took
	case little:
		p.round += (took - p.round) / 8 // slowly: one call that waited behind a page does not mean a slow link
	}
}

// Eased records that a call with the timeout allowed was answered after took: after quick replies the next
// timeout is shorter again.
func (p *Pace) Eased(took, allowed time.Duration) {
	if p.strain > 0 && took < allowed/4 {
		p.strain--
	}
}

// Failed records that a call that carries jobs got no reply, or that its connection was closed: a server
// closes one that has more to send than its client-output-buffer-limit. The failure of a call without jobs
// has nothing to do with its size.
func (p *Pace) Failed() {
	p.failed = p.Page()
	p.bytes = max(p.failed/2, minPage)
	p.strain = min(p.strain+1, maxStrain)
	p.full, p.gap = 0, min(2*p.gap+1, maxGap)
}

// Within makes a call that carries no jobs, with a deadline: usual, or more after missed ones, because a new
// connection takes several round trips, and each may be long.
func (p *Pace) Within(ctx context.Context, usual time.Duration, call func(context.Context) error) error {
	allowed := max(min(p.Timeout(usual, 0), maxWithin), usual)
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, allowed)
	defer cancel()
	err := call(bounded)
	switch took := time.Since(began); {
	case err == nil:
		p.Eased(took, allowed)
	case took >= allowed:
		p.Failed()
	}
	return err
}

// sizeOf returns how many bytes these calls send.
func sizeOf(calls []driver.Call) (bytes int) {
	for _, call := range calls {
		for _, arg := range call.Args {
			bytes += len(arg)
		}
	}
	return bytes
}
