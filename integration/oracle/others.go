package oracle

import (
	"strconv"
	"strings"
)

// del takes keys away: those that hold jobs with all that is in them.
func (s *stride) del(c []string) {
	for _, key := range c[1:] {
		if !strings.HasPrefix(key, s.k.prefix) {
			continue
		}
		delete(s.k.damaged, key)
		if gate, ok := strings.CutPrefix(key, s.k.keys.Rate("")); ok { // it says nothing more, or its kind has changed
			delete(s.k.gates.permits, gate)
			continue
		}
		if gate, ok := strings.CutPrefix(key, s.k.keys.Stop("")); ok {
			delete(s.k.gates.stops, gate)
			continue
		}
		if digest, ok := s.k.lockOf(key); ok {
			s.turn(digest).deleted = true
			delete(s.k.locks, digest)
			continue
		}
		if jid, ok := s.k.stateOf(key); ok {
			delete(s.k.states, jid)
			continue
		}
		if spot := s.k.spot(key); spot != nil {
			s.empty(spot, c[0])
			continue
		}
		if of, set, ok := s.k.batchOf(key); ok {
			s.dropBatch(of, set)
			continue
		}
		if identity, ok := s.k.recordOf(key); ok {
			p := s.k.process(identity)
			p.known = false
			if p.forgotten {
				s.k.kill(p)
			}
		}
	}
}

// recordOf is whose record a key is.
func (k *keyspace) recordOf(key string) (identity string, ok bool) {
	return strings.CutPrefix(key, k.prefix+"belay:process:")
}

// hset takes in what a process' record says.
func (s *stride) hset(c []string) {
	if c[1] == s.k.keys.PeriodicLast() {
		s.notes(c)
		return
	}
	if jid, ok := s.k.stateOf(c[1]); ok {
		s.writeState(jid, c)
		return
	}
	if of, _, ok := s.k.batchOf(c[1]); ok {
		s.writeBatch(of, c)
		return
	}
	if s.writeGates(c) {
		return
	}
	identity, ok := s.k.recordOf(c[1])
	if !ok {
		s.overwrite(c)
		return
	}
	p := s.k.process(identity)
	for at := 2; at+1 < len(c); at += 2 {
		value := c[at+1]
		switch name := c[at]; {
		case name == "queues":
			s.k.serve(p, value)
		case name == "ttl_ms":
			p.ttlMs, p.known, p.registeredAt = scoreOf(value), true, s.Number
		case name == "beat_ms":
			p.beatMs = scoreOf(value)
		case name == "quarantine_queue":
			p.quarantineQueue = value
		case name == "emptied" && p.emptiedAt == 0:
			p.emptiedAt = s.Number
		case strings.HasPrefix(name, "batch:"):
			s.settled[identity] = true
		}
	}
}

func (s *stride) hdel(c []string) {
	if jid, ok := s.k.stateOf(c[1]); ok {
		s.loseFields(jid, c[2:])
		return
	}
	if s.loseGates(c) {
		return
	}
	identity, ok := s.k.recordOf(c[1])
	if !ok {
		s.overwrite(c)
		return
	}
	for _, name := range c[2:] {
		if !strings.HasPrefix(name, "batch:") {
			s.violate(nil, CannotJudge, "the record of %s loses its %s", identity, name)
		}
	}
}

// overwrite takes in a command that has no business with keys of jobs: it damages those.
func (s *stride) overwrite(c []string) { s.damage(c[1]) }

// expire takes in a time to live, which a day's counters have and jobs must not. (Whatever sets one, this is
// how Redis writes it down.)
func (s *stride) expire(c []string) {
	if digest, ok := s.k.lockOf(c[1]); ok {
		s.turn(digest)
		if l := s.k.locks[digest]; l != nil {
			l.expiry = scoreOf(c[2])
		}
		return
	}
	if s.k.matters(c[1]) && s.k.counter(c[1]) == nil {
		s.violate(nil, CannotJudge, "%s is to expire", c[1])
	}
}

// counter is where the stride counts what a key counts; nil for any other key.
func (k *keyspace) counter(key string) func(c *counts) *int {
	name, ok := strings.CutPrefix(key, k.prefix+"stat:")
	if !ok {
		return nil
	}
	switch {
	case name == "processed":
		return func(c *counts) *int { return &c.processed }
	case name == "failed":
		return func(c *counts) *int { return &c.failed }
	case strings.HasPrefix(name, "processed:"):
		return func(c *counts) *int { return &c.processedToday }
	case strings.HasPrefix(name, "failed:"):
		return func(c *counts) *int { return &c.failedToday }
	}
	return nil
}

func (s *stride) incr(key, by string) {
	if which := s.k.counter(key); which != nil {
		n, _ := strconv.Atoi(by)
		*which(&s.count) += n
		return
	}
	s.damage(key)
}

// beats notes until when a process is alive.
func (s *stride) beats(identity string, untilMs float64) {
	p := s.k.process(identity)
	if p.tombstoned && untilMs > 0 && !s.base {
		s.violate(nil, Living, "%s beats after it was declared dead", identity)
	}
	p.expires(untilMs, s.Number)
	if untilMs > 0 && p.registeredAt != s.Number { // which makes it alive, and shows it nothing
		p.beats = append(p.beats, untilMs-p.ttlMs)
	}
}

// prolongs notes that a process is alive for longer. A call may come after its end, which it must not change.
func (s *stride) prolongs(identity string, ms float64) {
	p := s.k.process(identity)
	if until := p.expiry + ms; !p.tombstoned || until > p.diedAtMs {
		s.beats(identity, until)
	} else {
		p.expires(until, s.Number)
	}
}

// set takes in SET: a claim names the janitor that is about to judge a process.
func (s *stride) set(c []string) {
	if identity, ok := strings.CutPrefix(c[1], s.k.prefix+"belay:claim:"); ok {
		s.k.process(identity).claimant = c[2]
		return
	}
	if digest, ok := s.k.lockOf(c[1]); ok {
		s.setLock(digest, c)
		return
	}
	if c[1] == s.k.keys.Poller() {
		s.polls(c)
		return
	}
	if gate, ok := strings.CutPrefix(c[1], s.k.keys.Stop("")); ok && len(c) > 4 {
		s.k.gates.stops[gate] = scoreOf(c[4])
		return
	}
	s.overwrite(c)
}

// absentAfter is how many ms after the beat that is due a process may be declared dead because its subscription
// is gone, which shows in no log: a second, but for what Redis' clock may have been set by.
const absentAfter = 900

// dies notes a tombstone, and judges it: its score is the very instant at which the script looked. once is
// true of one that a process writes for itself when it leaves, and only then.
func (s *stride) dies(identity string, atMs float64, once bool) {
	p := s.k.process(identity)
	again := p.tombstoned
	p.tombstoned, p.diedAtMs = true, atMs
	if again || once || s.base || !p.known {
		return
	}
	until := p.expiryBefore(s.Number)
	if until > atMs+2*p.ttlMs {
		return // written before the clock was set back
	}
	if until > atMs {
		if silent := atMs - (until - p.ttlMs); silent < p.beatMs+absentAfter {
			s.violate(nil, Living, "%s is declared dead %.0f ms before its lease expires, and %.0f ms after its last beat", identity, until-atMs, silent)
		}
		return
	}
	if until > 0 && !s.k.clockMoves {
		s.judgeLooks(p, until, atMs)
	}
}

// judgeLooks holds that the process which declared another dead had checked it twice since it lapsed, two of
// the victim's beats apart. A look is an answer to a beat of the janitor's own, and its claim says who it is.
func (s *stride) judgeLooks(p *process, lapsedMs, atMs float64) {
	janitor := s.k.processes[p.claimant]
	if janitor == nil || !janitor.known {
		s.violate(nil, Living, "%s is declared dead by no known process", p.identity)
		return
	}
	looks := janitor.beatsFrom(lapsedMs)
	// Redis may have executed the first look as late as at the deadline of its call, a quarter of the TTL and
	// never less than a tenth of a second.
	least := 2*p.beatMs - janitor.beatMs/10 - max(janitor.ttlMs/4, 100)
	if len(looks) < 2 || atMs-looks[0] < least {
		s.violate(nil, Living, "%s is declared dead by %s at %.0f, after looks at %.0f that could see it lapsed: that takes %.0f ms",
			p.identity, p.claimant, atMs, looks, least)
	}
}
