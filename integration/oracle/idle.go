package oracle

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// maxLooks is how many looks of one poller a gate may outlast that has room and a waiter. The poller renews its
// lease with a look at the gates, a second after the last one at the earliest, and then lets in who may enter.
// The first of these looks may be older than the room, and the last one is still to be acted upon. The two
// between are two seconds, however slow the machine is: the log has the times of Redis, and a poller that is
// dead or stopped renews nothing.
const maxLooks = 4

// An idleness is that of a gate with room and a waiter, and no stop.
type idleness struct {
	since time.Time // when the poller looked first
	looks int
}

// polls takes in the poller's lease, and judges the gates that wait for the poller.
func (s *stride) polls(c []string) {
	g := &s.k.gates
	if g.poller != c[2] {
		g.poller = c[2]
		clear(g.idle)
	}
	if s.base || s.k.clockMoves || s.At.IsZero() {
		return
	}
	for _, gate := range slices.Sorted(maps.Keys(g.index)) {
		if !s.idle(gate) {
			delete(g.idle, gate)
			continue
		}
		idle := g.idle[gate]
		if idle == nil {
			idle = &idleness{since: s.At}
			g.idle[gate] = idle
		}
		if idle.looks++; idle.looks == maxLooks {
			s.violate(nil, Gates, "gate %q has room and a waiter, and none was let in for %s, in which %s looked %d times",
				gate, s.At.Sub(idle.since), g.poller, maxLooks)
		}
	}
}

// idle reports whether a gate surely has room and a waiter, and no stop. Steps are timed by the second: room
// that time makes is not sure until a second later.
func (s *stride) idle(gate string) bool {
	g := &s.k.gates
	if list := s.k.spots[s.k.keys.WaitingList(gate)]; list == nil || list.len() == 0 || g.stops[gate] > float64(s.At.UnixMilli()) {
		return false
	}
	limit, _, _ := strings.Cut(gate, ":")
	if _, known := g.sizes[limit]; !known {
		return false // it has no limit any more: the waiters leave when the poller has seen that
	}
	most, limited, kind, n, ms := s.k.sizeOf(gate)
	admitted := g.held[admittedOf(gate)]
	if limited && g.held[runningOf(gate)]+admitted >= most {
		return false
	}
	starts := g.starts[gate]
	before := func(count int, span int64) bool { // whether so many of the last starts are over
		at := len(starts) - 1 - count
		return at < 0 || s.At.Sub(starts[at])-time.Second > time.Duration(span)*time.Millisecond
	}
	switch kind {
	case "window":
		return admitted < n && before(n-1-admitted, ms)
	case "leaky":
		return before(0, int64(admitted+1)*ms/int64(n))
	}
	return true
}
