package oracle

import (
	"slices"
	"strconv"
	"strings"
)

// A stride is one step being taken in one keyspace.
type stride struct {
	*Step
	k       *keyspace
	touched []*subject
	count   counts
	// settled are the identities whose record keeps a verdict of this step: what left their lists was settled
	// by them.
	settled map[string]bool
	// exits are how its edges must have moved the counters.
	exits exits
	// kills says that it brings something to the dead set.
	kills bool
	// turns are what it does to locks, by digest, and turned are those in the order of the commands.
	turns  map[string]*turn
	turned []string
	// gates is what it does to them.
	gates gateStep
	// altered are the batches whose keys it writes.
	altered []*batch
	// noted is what it says of the last ticks of periodic jobs, by name.
	noted map[string]string
}

// counts are by how much the step moved the counters.
type counts struct{ processed, failed, processedToday, failedToday int }

// A leg is half a move: one copy leaves a place, or comes into one.
type leg struct {
	at    *spot
	entry *entry
	// right says at which end of a list; verb is the command.
	right bool
	verb  string
	// merged says that a set had an equal member, so that no copy was added.
	merged bool
}

// A trip is what one step does to one subject.
type trip struct{ outs, ins []leg }

// verbs is how each write command is understood. What is not here is not, see stride.do.
var verbs = map[string]func(s *stride, c []string){
	"LPUSH":            (*stride).lpush,
	"RPUSH":            on((*stride).lists, func(s *stride, at *spot, c []string) { s.push(at, c, true) }),
	"LPOP":             on((*stride).lists, func(s *stride, at *spot, c []string) { s.pop(at, c, false) }),
	"RPOP":             on((*stride).lists, func(s *stride, at *spot, c []string) { s.pop(at, c, true) }),
	"LREM":             on((*stride).lists, (*stride).lrem),
	"LSET":             on((*stride).lists, (*stride).lset),
	"LMOVE":            func(s *stride, c []string) { s.move(c, isRight(c[3]), isRight(c[4])) },
	"RPOPLPUSH":        func(s *stride, c []string) { s.move(c, true, false) },
	"ZADD":             (*stride).zadd,
	"ZINCRBY":          on((*stride).sets, (*stride).zincrby),
	"ZREM":             (*stride).zrem,
	"ZREMRANGEBYRANK":  on((*stride).sets, (*stride).zremrangebyrank),
	"ZREMRANGEBYSCORE": on((*stride).sets, (*stride).zremrangebyscore),
	"DEL":              (*stride).del,
	"UNLINK":           (*stride).del,
	"HSET":             (*stride).hset,
	"HMSET":            (*stride).hset,
	"HDEL":             (*stride).hdel,
	"INCR":             func(s *stride, c []string) { s.incr(c[1], "1") },
	"INCRBY":           func(s *stride, c []string) { s.incr(c[1], c[2]) },
	"SET":              (*stride).set,
	"SETRANGE":         (*stride).setrange,
	"HSETNX":           (*stride).hset,
	"HINCRBY":          (*stride).hset,
	"SADD":             (*stride).members,
	"SREM":             (*stride).members,
	"PEXPIREAT":        (*stride).expire,
}

// on is for commands that mean nothing to other keys than those that find finds: keys which hold jobs.
func on(find func(s *stride, key string) *spot, do func(s *stride, at *spot, c []string)) func(s *stride, c []string) {
	return func(s *stride, c []string) {
		if at := find(s, c[1]); at != nil {
			do(s, at, c)
		}
	}
}

func isRight(word string) bool { return strings.EqualFold(word, "RIGHT") }

// do takes in one command. One that is not understood and names a key that matters cannot be judged, and so
// is reported.
func (s *stride) do(c []string) {
	verb, known := verbs[c[0]]
	if known {
		verb(s, c)
		return
	}
	for _, word := range c[1:] {
		if strings.HasPrefix(word, s.k.prefix) && s.k.matters(word) {
			s.violate(nil, CannotJudge, "%s on %s is not understood", c[0], word)
			return
		}
	}
}

// matters reports whether what happens to a key can be a violation.
func (k *keyspace) matters(key string) bool {
	if k.spot(key) != nil || k.unowned(key) || k.counter(key) != nil {
		return true
	}
	_, record := k.recordOf(key)
	_, lock := k.lockOf(key)
	return record || lock || key == k.keys.Alive() || key == k.keys.Tombstones()
}

func (s *stride) trip(of *subject) *trip {
	if of.trip == nil {
		of.trip = &trip{}
		s.touched = append(s.touched, of)
	}
	return of.trip
}

// in brings a copy into a place, out takes one away. A copy that comes and goes within the step was there for
// no process.
func (s *stride) in(e *entry, l leg) {
	l.entry = e
	s.passes(l)
	if e.of.named {
		s.settles(e.of, "job", e.of.jid)
	}
	if !l.merged {
		e.of.copies++
	}
	t := s.trip(e.of)
	t.ins = append(t.ins, l)
}

func (s *stride) out(e *entry, l leg) {
	l.entry = e
	s.passes(l)
	e.of.copies--
	t := s.trip(e.of)
	for i, in := range t.ins {
		if in.entry == e {
			t.ins = slices.Delete(t.ins, i, i+1)
			return
		}
	}
	t.outs = append(t.outs, l)
}

// settles notes that something is on this shard, and reports it if it is on another one too.
func (s *stride) settles(of *subject, kind, name string) {
	homes := s.k.homes
	if homes == nil {
		return
	}
	home, known := homes[kind+" "+name]
	if known && home != s.k.prefix {
		s.violate(of, Shards, "the %s %s is on %s and on %s", kind, name, home, s.k.prefix)
	}
	homes[kind+" "+name] = s.k.prefix
}

// lists finds the spot of a list command, nil when it is none of jobs. One that comes to a sorted set or to a
// counter damages it.
func (s *stride) lists(key string) *spot { return s.typed(key, false) }

func (s *stride) sets(key string) *spot { return s.typed(key, true) }

func (s *stride) typed(key string, sorted bool) *spot {
	spot := s.k.spot(key)
	switch {
	case spot == nil && s.k.unowned(key):
		s.violate(nil, CannotJudge, "%s is the working list of no registered process", key)
	case spot == nil || spot.place.sorted() != sorted:
		s.damage(key)
		return nil
	}
	return spot
}

// damage notes that a key of jobs or a counter is of another type than it should be. What it held is lost.
func (s *stride) damage(key string) {
	if spot := s.k.spot(key); spot != nil {
		s.empty(spot, "overwritten")
	}
	if s.k.counter(key) != nil {
		s.k.damaged[key] = true
	}
}

func (s *stride) empty(spot *spot, verb string) {
	for _, e := range spot.entries() {
		s.out(e, leg{at: spot, verb: verb})
	}
	spot.list = nil
	clear(spot.set)
}

func (s *stride) lpush(c []string) {
	if gate, ok := strings.CutPrefix(c[1], s.k.keys.Rate("")); ok {
		s.permits(gate, c[2:])
		return
	}
	if at := s.lists(c[1]); at != nil {
		s.push(at, c, false)
	}
}

func (s *stride) push(at *spot, c []string, right bool) {
	for _, text := range c[2:] {
		e := s.k.entry(at, text)
		at.list.push(e, right)
		s.in(e, leg{at: at, right: right, verb: c[0]})
	}
}

func (s *stride) pop(at *spot, c []string, right bool) {
	count := 1
	if len(c) > 2 {
		count, _ = strconv.Atoi(c[2])
	}
	for range count {
		e := at.list.pop(right)
		if e == nil {
			break
		}
		s.out(e, leg{at: at, right: right, verb: c[0]})
	}
}

func (s *stride) lrem(at *spot, c []string) {
	count, _ := strconv.Atoi(c[2])
	right, most, sought := count < 0, max(count, -count), s.k.entry(at, c[3]).text
	for n := 0; most == 0 || n < most; n++ {
		e, atRight := at.list.remove(sought, right)
		if e == nil {
			break
		}
		s.out(e, leg{at: at, right: atRight, verb: c[0]})
	}
}

// lset puts one entry in the place of another.
func (s *stride) lset(at *spot, c []string) {
	index, _ := strconv.Atoi(c[2])
	if index < 0 {
		index = -index - 1
	} else {
		index = len(at.list) - 1 - index
	}
	s.out(at.list[index], leg{at: at, verb: c[0]})
	at.list[index] = s.k.entry(at, c[3])
	s.in(at.list[index], leg{at: at, verb: c[0]})
}

func (s *stride) move(c []string, fromRight, toRight bool) {
	from, to := s.lists(c[1]), s.lists(c[2])
	if from == nil {
		if to != nil {
			s.violate(nil, CannotJudge, "%s brings something from %s, which holds no jobs", c[0], c[1])
		}
		return
	}
	e := from.list.pop(fromRight)
	if e == nil {
		return
	}
	s.out(e, leg{at: from, right: fromRight, verb: c[0]})
	if to == nil {
		return
	}
	to.list.push(e, toRight)
	s.in(e, leg{at: to, right: toRight, verb: c[0]})
}
