package oracle

import (
	"crypto/sha1" //nolint:gosec // the scripts name a job's bytes so
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/lua"
)

// gates are what is known of limits.
type gates struct {
	sizes    map[string]string            // by limit
	counts   map[string]int               // what Redis says, by field
	slots    map[string]map[string]string // the gates of runs, by identity and by the SHA-1 of the job's bytes
	admitted map[string]admission         // by SHA-1
	held     map[string]int               // how many slots there are and how many admissions count, by field
	starts   map[string][]time.Time       // the last starts, by gate
	permits  map[string][]float64         // when the last permits of a window were used, in ms, by gate
	index    map[string]bool
	leases   map[string]bool
	stops    map[string]float64   // when they end, in ms, by gate
	idle     map[string]*idleness // by gate
	poller   string               // who has its lease
}

type admission struct {
	lapsed      bool
	gate, queue string
}

func newGates() gates {
	return gates{
		sizes: make(map[string]string), counts: make(map[string]int), slots: make(map[string]map[string]string), admitted: make(map[string]admission),
		held: make(map[string]int), starts: make(map[string][]time.Time), permits: make(map[string][]float64), index: make(map[string]bool), leases: make(map[string]bool),
		stops: make(map[string]float64), idle: make(map[string]*idleness),
	}
}

func runningOf(gate string) string { return gate + "\nr" }

func admittedOf(gate string) string { return gate + "\na" }

func sumOf(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// A gateStep is what a step does to gates.
type gateStep struct {
	before  map[string]int // slots and admissions of gates that it changes, together, as it began
	started map[string]int // slots that it adds
	ledgers map[string]bool
	granted []string    // SHA-1s
	freed   [][2]string // identities and SHA-1s
}

// changes notes that a step changes a gate. That of a class rule counts on each shard alone.
func (s *stride) changes(gate string) {
	limit, _, _ := strings.Cut(gate, ":")
	if _, rule := lua.ClassOfLimit(limit); !rule {
		s.settles(nil, "gate", gate)
	}
	if s.gates.before == nil {
		s.gates = gateStep{before: make(map[string]int), started: make(map[string]int), ledgers: make(map[string]bool)}
	}
	if _, known := s.gates.before[gate]; !known {
		s.gates.before[gate] = s.k.gates.held[runningOf(gate)] + s.k.gates.held[admittedOf(gate)]
	}
}

// ledgerOf is whose ledger of slots a key is.
func (k *keyspace) ledgerOf(key string) (identity string, ok bool) {
	return strings.CutPrefix(key, k.prefix+"belay:slots:")
}

// writeGates takes in a write of one of the hashes of gates; false for another key.
func (s *stride) writeGates(c []string) bool {
	g := &s.k.gates
	identity, ledger := s.k.ledgerOf(c[1])
	for at := 2; at+1 < len(c); at += 2 {
		field, value := c[at], c[at+1]
		switch {
		case ledger:
			s.loseSlot(identity, field)
			s.changes(value)
			if g.slots[identity] == nil {
				g.slots[identity] = make(map[string]string)
			}
			g.slots[identity][field] = value
			g.held[runningOf(value)]++
			s.gates.started[value]++
			s.gates.ledgers[identity] = true
		case c[1] == s.k.keys.Admitted():
			was, had := g.admitted[field]
			s.loseAdmission(field)
			since, rest, _ := strings.Cut(value, "\n")
			gate, queue, _ := strings.Cut(rest, "\n")
			s.changes(gate)
			g.admitted[field] = admission{strings.HasPrefix(since, "-"), gate, queue}
			if !g.admitted[field].lapsed {
				g.held[admittedOf(gate)]++
			}
			if !g.admitted[field].lapsed && (!had || was.lapsed) {
				s.gates.granted = append(s.gates.granted, field)
			}
		case c[1] == s.k.keys.Limits():
			g.sizes[field] = value
		case c[1] == s.k.keys.Gates():
			n, _ := strconv.Atoi(value)
			if c[0] == "HINCRBY" {
				n += g.counts[field]
			}
			g.counts[field] = n
			s.changes(field[:max(len(field)-2, 0)])
		default:
			return false
		}
	}
	return ledger || slices.Contains([]string{s.k.keys.Admitted(), s.k.keys.Limits(), s.k.keys.Gates()}, c[1])
}

// passes notes a leg that ends or begins in a gate's waiting list.
func (s *stride) passes(l leg) {
	if l.place() == Waiting {
		s.changes(strings.TrimPrefix(l.at.key, s.k.keys.WaitingList("")))
	}
}

// loseGates takes in HDEL of one of these hashes; false for another key.
func (s *stride) loseGates(c []string) bool {
	identity, ledger := s.k.ledgerOf(c[1])
	for _, field := range c[2:] {
		switch {
		case ledger:
			s.loseSlot(identity, field)
		case c[1] == s.k.keys.Admitted():
			s.loseAdmission(field)
		case c[1] == s.k.keys.Limits():
			delete(s.k.gates.sizes, field)
		case c[1] == s.k.keys.Gates():
			delete(s.k.gates.counts, field)
			s.changes(field[:max(len(field)-2, 0)])
		default:
			return false
		}
	}
	return true
}

func (s *stride) loseSlot(identity, sum string) {
	gate, held := s.k.gates.slots[identity][sum]
	if held {
		s.changes(gate)
		s.k.gates.held[runningOf(gate)]--
		s.gates.freed = append(s.gates.freed, [2]string{identity, sum})
		delete(s.k.gates.slots[identity], sum)
	}
}

func (s *stride) loseAdmission(sum string) {
	if a, had := s.k.gates.admitted[sum]; had {
		s.changes(a.gate)
		if !a.lapsed {
			s.k.gates.held[admittedOf(a.gate)]--
		}
		delete(s.k.gates.admitted, sum)
	}
}

// indexes takes in a change of the index of gates with waiters.
func (s *stride) indexes(gate string, has bool) {
	s.changes(gate)
	if s.k.gates.index[gate] = has; !has {
		delete(s.k.gates.index, gate)
	}
}

// lease takes in a slot that is held for a caller without a job, or its end.
func (s *stride) lease(text string, held bool) {
	g, gate := &s.k.gates, text[:max(strings.IndexByte(text, '\n'), 0)]
	switch s.changes(gate); {
	case held && !g.leases[text]:
		g.leases[text] = true
		g.held[runningOf(gate)]++
		s.gates.started[gate]++
	case !held && g.leases[text]:
		delete(g.leases, text)
		g.held[runningOf(gate)]--
	}
}

// judgeGates holds that the counts of gates say what ledgers and admissions say, after each step; that a gate
// has no more of them than its limit allows, no more starts than its rate, and none during a stop; and that
// each has its job.
func (s *stride) judgeGates() {
	if s.base {
		s.gates = gateStep{}
		return
	}
	for _, of := range s.touched {
		s.judgeHeld(of)
	}
	g := &s.k.gates
	for _, gate := range slices.Sorted(maps.Keys(s.gates.before)) {
		for _, field := range []string{runningOf(gate), admittedOf(gate)} {
			if g.counts[field] != g.held[field] {
				s.violate(nil, Gates, "%q is counted as %d, and there are %d", field, g.counts[field], g.held[field])
			}
		}
		if now := g.held[runningOf(gate)] + g.held[admittedOf(gate)]; now > s.gates.before[gate] {
			s.judgeSize(gate, now)
		}
		if list := s.k.spots[s.k.keys.WaitingList(gate)]; g.index[gate] != (list != nil && list.len() > 0) {
			s.violate(nil, Gates, "gate %q has waiters, or is in the index, and not both", gate)
		}
		s.judgeStarts(gate, s.gates.started[gate])
		if g.idle[gate] != nil && !s.idle(gate) {
			delete(g.idle, gate)
		}
	}
	for identity := range s.gates.ledgers {
		inHand := s.k.sumsOf(identity)
		for sum, gate := range g.slots[identity] {
			if !inHand[sum] && !s.k.mayLeave(identity) {
				s.violate(nil, Gates, "%s has a slot of gate %q for a job that it does not have", identity, gate)
			}
		}
	}
	for _, freed := range s.gates.freed {
		if _, again := g.slots[freed[0]][freed[1]]; !again && s.k.sumsOf(freed[0])[freed[1]] {
			s.violate(nil, Gates, "%s has a job whose slot is freed", freed[0])
		}
	}
	s.judgeGranted()
}

// judgeGranted holds that who is admitted is in its queue, or still in hand. One that was there before may be a
// job that is equal in every byte.
func (s *stride) judgeGranted() {
	for _, sum := range s.gates.granted {
		a, had := s.k.gates.admitted[sum]
		if had && !slices.ContainsFunc(s.touched, func(of *subject) bool { return of.copies > 0 && sumOf(of.text) == sum }) && !a.lapsed {
			s.violate(nil, Gates, "a job is admitted by gate %q, and did not come to its queue %q", a.gate, a.queue)
		}
	}
}

// judgeHeld holds that a job that left a process' hand left its slot too, and that an admitted one did not
// leave for good.
func (s *stride) judgeHeld(of *subject) {
	if !of.left.inHand() {
		return
	}
	sum := sumOf(of.leftText)
	if gate, held := s.k.gates.slots[of.leftBy][sum]; held && !s.k.sumsOf(of.leftBy)[sum] && !s.k.mayLeave(of.leftBy) {
		s.violate(of, Gates, "it left the hand of %s, and its slot of gate %q did not", of.leftBy, gate)
	}
}

// mayLeave reports whether a process may have slots of jobs that it does not have; see OldJanitors.
func (k *keyspace) mayLeave(identity string) bool {
	return k.oldJanitors && k.process(identity).tombstoned
}

// inHand reports whether it is a place in the hand of a process.
func (p Place) inHand() bool { return p == Working || p == QuarantineRun }

// sumsOf are the SHA-1s of all that a process has in hand.
func (k *keyspace) sumsOf(identity string) map[string]bool {
	sums := make(map[string]bool)
	for _, key := range k.keys.ListsOf(k.process(identity).queues, identity) {
		if spot := k.spots[key]; spot != nil {
			for _, e := range spot.entries() {
				sums[sumOf(e.text)] = true
			}
		}
	}
	return sums
}

// sizeOf is a gate's size: how many runs, the kind of its rate, its number and its milliseconds.
func (k *keyspace) sizeOf(gate string) (most int, limited bool, kind string, n int, ms int64) {
	limit, _, _ := strings.Cut(gate, ":")
	words := strings.Fields(k.gates.sizes[limit])
	if len(words) < 4 {
		return 0, false, "none", 0, 0
	}
	most, err := strconv.Atoi(words[0])
	n, _ = strconv.Atoi(words[2])
	ms, _ = strconv.ParseInt(words[3], 10, 64)
	return most, err == nil, words[1], n, ms
}

func (s *stride) judgeSize(gate string, now int) {
	if most, limited, _, _, _ := s.k.sizeOf(gate); limited && now > most {
		s.violate(nil, Gates, "gate %q has %d runs and admitted jobs, and its limit is %d", gate, now, most)
	}
}

// judgeStarts holds that no window has more starts than its rate, by the seconds of the log, less one of doubt,
// and that a gate that is stopped starts nothing.
func (s *stride) judgeStarts(gate string, started int) {
	_, _, kind, n, ms := s.k.sizeOf(gate)
	starts := s.k.gates.starts[gate]
	if started == 0 || s.At.IsZero() || s.k.clockMoves {
		return
	}
	if left := s.k.gates.stops[gate] - float64(s.At.Add(2*time.Second).UnixMilli()); left > 0 {
		s.violate(nil, Gates, "gate %q starts a job, and is stopped for %.0f ms more", gate, left)
	}
	if kind == "none" {
		return
	}
	if kind == "leaky" { // so many at once, and as many in the time after it
		n *= 2
	}
	for range started {
		starts = append(starts, s.At)
	}
	if len(starts) > n {
		first := len(starts) - n - 1
		if apart := starts[len(starts)-1].Sub(starts[first]) + time.Second; apart.Milliseconds() <= ms {
			s.violate(nil, Gates, "gate %q has %d starts within %s, and its rate allows %d in %d ms", gate, n+1, apart, n, ms)
		}
		starts = slices.Clone(starts[first+1:])
	}
	s.k.gates.starts[gate] = starts
}

// permits takes in the starts that a window counts, by the time of Redis in ms, and holds that no window has
// more of them than its size.
func (s *stride) permits(gate string, times []string) {
	_, _, kind, n, ms := s.k.sizeOf(gate)
	if s.base || s.k.clockMoves || kind != "window" {
		return
	}
	used := s.k.gates.permits[gate]
	for _, at := range times {
		used = append(used, scoreOf(at))
		if first := len(used) - n - 1; first >= 0 {
			if span := used[len(used)-1] - used[first]; span <= float64(ms) {
				s.violate(nil, Gates, "gate %q has %d starts within %.0f ms, and its window of %d ms allows %d", gate, n+1, span, ms, n)
			}
			used = slices.Clone(used[first+1:])
		}
	}
	s.k.gates.permits[gate] = used
}

// parked is a job that its gate lets wait, or whose handler asked for it.
func (c *crossing) parked() Move {
	c.requireSameBytes()
	if c.in.entry.queue != c.out.at.queue {
		c.fail(IllegalEdge, "it was of queue %q, and waits for queue %q", c.out.at.queue, c.in.entry.queue)
	}
	return Waits
}

// admitted is a waiter that comes to the back of its queue.
func (c *crossing) admitted() Move {
	c.requireEnd(c.out, true)
	c.requireEnd(c.in, false)
	c.requireSameBytes()
	c.requireOwnQueue()
	return Admitted
}

func (c *crossing) requireOwnQueue() {
	if c.out.entry.queue != c.in.at.queue {
		c.fail(IllegalEdge, "it waited for queue %q, and came to queue %q", c.out.entry.queue, c.in.at.queue)
	}
}

// released is a waiter that an operator moves to a queue.
func (c *crossing) released() Move {
	c.requireEnqueued(func(string, change) bool { return false })
	return Sent
}
