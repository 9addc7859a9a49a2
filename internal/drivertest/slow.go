package drivertest

import (
	"context"
	"slices"
	"time"

	"github.com/belayq/belay/driver"
)

// Slow is a client on a slow link, simulated per call and without a proxy: each call takes a round trip,
// plus the time of its bytes at the given rate (none if rate is zero). A reply that would arrive after the
// call's deadline is lost at the deadline, although the server has executed the call.
type Slow struct {
	driver.Client
	RoundTrip time.Duration
	Rate      int
}

// Lane implements driver.Client. A lane is as slow as the client.
func (s Slow) Lane(conns int) (driver.Client, error) {
	lane, err := s.Client.Lane(conns)
	return Slow{Client: lane, RoundTrip: s.RoundTrip, Rate: s.Rate}, err
}

// Do implements driver.Client.
func (s Slow) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	began := time.Now()
	replies := s.Client.Do(context.WithoutCancel(ctx), calls...)
	bytes := 0
	for _, call := range calls {
		for _, word := range slices.Concat(call.Keys, call.Args) {
			bytes += len(word)
		}
	}
	for _, reply := range replies {
		bytes += driver.Size(reply.Value)
	}
	takes := s.RoundTrip
	if s.Rate > 0 {
		takes += time.Duration(bytes) * time.Second / time.Duration(s.Rate)
	}
	if deadline, ok := ctx.Deadline(); ok && began.Add(takes).After(deadline) {
		time.Sleep(time.Until(deadline))
		for i := range replies {
			replies[i] = driver.Reply{Err: &driver.UncertainError{Err: context.DeadlineExceeded}}
		}
		return replies
	}
	time.Sleep(time.Until(began.Add(takes)))
	return replies
}
