package oracle

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// A lock is one lock's key, as it is after the steps read so far.
type lock struct {
	digest string
	// value is a state ("-", "s", "d" or "k"), its owner's jid, and what does not matter here.
	value string
	// expiry is when it ends by itself, in ms by Redis' clock; 0 for never.
	expiry float64
	// of is its owner, and rule what that one's payload says of it.
	of   *subject
	rule uniqueness
	// excused is set when nothing more can be asked of it: its owner went by hands that know of no locks, or
	// a breach has been reported.
	excused bool
}

// A uniqueness is what a payload says of its lock.
type uniqueness struct {
	Digest    string  `json:"digest"`
	Until     string  `json:"until"`
	TTL       float64 `json:"ttl_ms"`
	Again     bool    `json:"again"`
	Scheduled bool    `json:"scheduled"`
}

// uniquenessOf is the zero one for a job that is not unique.
func uniquenessOf(text string) (u uniqueness) {
	if strings.Contains(text, `"belay_unique"`) && json.Unmarshal([]byte(valueOf(text, "belay_unique")), &u) != nil {
		return uniqueness{}
	}
	return u
}

func (l *lock) state() string { return l.value[:min(len(l.value), 1)] }

// owner is the jid that the value names.
func (l *lock) owner() string {
	jid, _, _ := strings.Cut(l.value, "\n")
	return jid[min(len(jid), 1):]
}

// A turn is what one step does to one lock.
type turn struct {
	// before is the lock as the step found it, nil for none.
	before *lock
	// deleted says that its key went, before whatever the step set then.
	deleted bool
	// unlisted says that it left the index of locks, which no script does for one that has run out.
	unlisted bool
}

// lockOf is the digest of a lock's key.
func (k *keyspace) lockOf(key string) (digest string, ok bool) {
	return strings.CutPrefix(key, k.prefix+"belay:lock:")
}

func (s *stride) turn(digest string) *turn {
	t := s.turns[digest]
	if t == nil {
		t = &turn{}
		if l := s.k.locks[digest]; l != nil {
			was := *l
			t.before = &was
		}
		if s.turns == nil {
			s.turns = make(map[string]*turn)
		}
		s.turns[digest] = t
		s.turned = append(s.turned, digest)
	}
	return t
}

// setLock takes in SET, which Redis writes down with the instant at which the key expires, or with none.
func (s *stride) setLock(digest string, c []string) {
	s.turn(digest)
	if len(c) == 4 && strings.EqualFold(c[3], "KEEPTTL") {
		s.leaveWith(digest, c[2])
		return
	}
	s.settles(nil, "lock", digest)
	l := &lock{digest: digest, value: c[2]}
	for at := 3; at+1 < len(c); at++ {
		if strings.EqualFold(c[at], "PXAT") {
			l.expiry = scoreOf(c[at+1])
		}
	}
	s.k.locks[digest] = l
}

// leaveWith is how a refused duplicate leaves something with a lock: its state, and what stands behind since
// when it is held, may change, and nothing else.
func (s *stride) leaveWith(digest, value string) {
	l := s.k.locks[digest]
	if l == nil || firstLines(l.value) != firstLines(value) {
		s.violate(nil, Locks, "something is left with the lock %s, and it is %q then", digest, value)
		return
	}
	s.requireLeft(l, value)
	l.value = value
}

// requireLeft holds that what was left with a lock is left with it still, or of the same connection a later
// position.
func (s *stride) requireLeft(l *lock, value string) {
	now := leftIn(value)
	for name, was := range leftIn(l.value) {
		if now[name] < was {
			s.violate(l.of, Locks, "the lock %s forgets a position of %s: it was %X, and is %X", l.digest, name, was, now[name])
		}
	}
}

// leftIn are the positions in write-ahead logs that a lock's value has behind since when it is held.
func leftIn(value string) map[string]uint64 {
	found := make(map[string]uint64)
	for _, line := range strings.Split(value, "\n")[min(strings.Count(value, "\n"), 2)+1:] {
		name, position, _ := strings.Cut(line, " ")
		high, low, _ := strings.Cut(position, "/")
		h, _ := strconv.ParseUint(high, 16, 32)
		l, _ := strconv.ParseUint(low, 16, 32)
		found[name] = h<<32 | l
	}
	return found
}

// firstLines are a lock's holder, the holder's class and since when it is held, without the state before
// them.
func firstLines(value string) string {
	lines := strings.SplitN(value, "\n", 4)
	return strings.Join(lines[:min(len(lines), 3)], "\n")[min(len(value), 1):]
}

// setrange is how a lock's state is changed in its place.
func (s *stride) setrange(c []string) {
	digest, ok := s.k.lockOf(c[1])
	if !ok {
		s.overwrite(c)
		return
	}
	s.turn(digest)
	if l := s.k.locks[digest]; l != nil && c[2] == "0" && len(c[3]) == 1 {
		l.value = c[3] + l.value[1:]
		return
	}
	s.violate(nil, Locks, "%s of the lock %s changes more than its state", c[0], digest)
}

func (s *stride) unlist(digest string) {
	s.turn(digest).unlisted = true
	delete(s.k.listed, digest)
}

// judgeLocks looks at all that the step did to locks, and to jobs that have one, once it is done.
func (s *stride) judgeLocks() {
	for _, digest := range s.turned {
		s.judgeLock(s.turns[digest], s.k.locks[digest])
	}
	for _, of := range s.touched {
		if !s.base {
			s.judgeHolder(of)
		}
	}
}

// judgeLock judges one lock that the step touched; after is nil for one that is free now.
func (s *stride) judgeLock(t *turn, after *lock) {
	before := t.before
	if before.kept() || after.kept() {
		if !s.base {
			s.judgeKept(t, after)
		}
		return
	}
	took := after != nil && (before == nil || t.deleted || before.owner() != after.owner())
	ended := before != nil && (after == nil || took)
	tenures := s.k.report.Tenures
	if ended {
		delete(s.k.holders, before.owner())
		if of := tenures[before.owner()]; len(of) > 0 {
			of[len(of)-1].To = s.At
		}
	}
	if took {
		tenures[after.owner()] = append(tenures[after.owner()], Tenure{From: s.At})
	}
	switch {
	case took:
		if after.of = s.k.jobs["jid "+after.owner()]; after.of != nil {
			after.rule = uniquenessOf(after.of.text)
		}
		s.k.holders[after.owner()] = after
	case after != nil:
		after.of, after.rule, after.excused = before.of, before.rule, before.excused
		s.k.holders[after.owner()] = after
	}
	if s.base {
		return
	}
	if ended {
		s.judgeEnd(t, after)
	}
	switch {
	case after == nil:
		return
	case took:
		s.judgeTaking(after)
	case before.state() != after.state():
		s.judgeState(before.state(), after)
	}
	s.judgeStanding(after)
}

// kept reports whether it is the lock of a key, which no payload names and which outlives its job.
func (l *lock) kept() bool { return l != nil && l.state() == "k" }

// judgeKept holds that the lock of a key comes in the step that stores its job, stays as it is, and goes with
// its time or by an operator. after is nil for one that is free now.
func (s *stride) judgeKept(t *turn, after *lock) {
	if after == nil {
		if left := t.before.expiry - s.latest(); t.deleted && !t.unlisted && left > 0 {
			s.failLock(t.before, "is deleted %.0f ms or more before it runs out", left)
		}
		return
	}
	after.of = s.k.jobs["jid "+after.owner()]
	listed, ok := s.k.listed[after.digest]
	switch taken := t.before == nil || t.deleted; {
	case taken && (after.of == nil || after.of.movedAt != s.Number || after.of.edge.From != Nowhere):
		s.failLock(after, "is taken in a step that does not store the job")
	case !taken && t.before.value != after.value:
		s.failLock(after, "is kept, and changes from %q to %q", t.before.value, after.value)
	case after.expiry == 0:
		s.failLock(after, "never ends")
	case !ok || math.Abs(listed-after.expiry) > clockSlack:
		s.failLock(after, "ends at %.0f, and is listed until %.0f", after.expiry, listed)
	}
}

// failLock reports a breach, and no other of that lock.
func (s *stride) failLock(l *lock, format string, args ...any) {
	if l.excused {
		return
	}
	l.excused = true
	s.violate(l.of, Locks, "the lock "+l.digest+" of "+l.owner()+" "+format, args...)
}

// judgeEnd holds that a lock ended with its job, with its time, or with its start.
func (s *stride) judgeEnd(t *turn, after *lock) {
	l := t.before
	moved := l.of != nil && l.of.movedAt == s.Number
	ended := moved && l.of.over()
	switch {
	case t.deleted && !t.unlisted:
		if left := l.expiry - s.latest(); left > 0 {
			s.failLock(l, "is deleted %.0f ms or more before it runs out", left)
		}
	case !t.deleted && after != nil && (!ended || after.of == nil || after.of.movedAt != s.Number || after.of.edge.From != Nowhere):
		s.failLock(l, "is given to %s, which does not follow it", after.owner())
	case !t.deleted && after != nil && (l.state() != "d" || !l.rule.Again):
		s.failLock(l, "is given to a run that no duplicate asked for, in state %q", l.state())
	case !t.deleted && after != nil:
		s.judgeFollower(l, after)
	case ended && l.state() == "d" && l.rule.Again && l.of.edge.Move != Allowed:
		s.failLock(l, "is freed, and the run is not there that was asked for")
	case ended || (l.of != nil && !l.of.named):
	case !moved && l.rule.Until == "until_executing" && l.of != nil && l.of.inHand():
	case !moved && s.k.acts: // released by an operator
	default:
		s.failLock(l, "is freed, and the job lives on")
	}
}

// ofOneRun are what befell a job that is run once more: its follower begins anew.
var ofOneRun = map[string]bool{
	"retry_count": true, "failed_at": true, "retried_at": true, "error_class": true, "error_message": true, "error_backtrace": true,
	"belay_errors": true, "discarded_at": true, "interrupted_count": true, "interrupted_at": true,
	"overrated": true, "belay_worker_retries": true, "at": true,
}

// judgeFollower holds that the one more run is of the same job, and learns what was left for it.
func (s *stride) judgeFollower(l, after *lock) {
	s.k.report.Follows[l.owner()] = after.owner()
	s.requireLeft(l, after.value)
	for name, ch := range changes(l.of.text, after.of.text) {
		switch {
		case name == "jid", name == "created_at", name == "enqueued_at", name == "queue":
		case ofOneRun[name] && ch.new == "":
		default:
			s.violate(after.of, Bytes, "%s is %.200q and was %.200q in %s, for which it runs once more", name, ch.new, ch.old, l.owner())
		}
	}
}

// judgeTaking holds that a lock comes with its job: in the step that stores it, or that brings it out of the
// schedule; or, before a job goes back whose run has not begun after all, again.
func (s *stride) judgeTaking(l *lock) {
	of := l.of
	back := of != nil && of.movedAt != s.Number && of.inHand() && l.rule.Until == "until_executing"
	switch {
	case back && l.rule.Digest == l.digest && l.state() == "-":
	case of == nil || of.movedAt != s.Number:
		s.failLock(l, "is taken in a step that does not store the job")
	case of.edge.From != Nowhere && of.edge.From != Schedule && of.edge.Move != Sent && of.edge.Move != Allowed:
		s.failLock(l, "is taken on the way from %s to %s", of.edge.From, of.edge.To)
	case l.rule.Digest != l.digest:
		s.failLock(l, "is not the one that its payload names: %q", l.rule.Digest)
	case l.state() != "-":
		s.failLock(l, "begins in state %q", l.state())
	}
}

// judgeState holds how a lock's state changes: "s" when a run has begun, "d" when a duplicate was refused
// after that.
func (s *stride) judgeState(was string, l *lock) {
	switch {
	case was == "-" && l.state() == "s" && l.of != nil && l.of.inHand() && l.of.movedAt != s.Number:
	case was == "s" && l.state() == "d":
	default:
		s.failLock(l, "goes from state %q to %q", was, l.state())
	}
}

// judgeStanding holds what is true of every lock that stands.
func (s *stride) judgeStanding(l *lock) {
	listed, ok := s.k.listed[l.digest]
	switch {
	case l.expiry == 0:
		s.failLock(l, "never ends")
	case l.of == nil || l.of.over():
		s.failLock(l, "is not that of a job that lives")
	case l.expiry > s.latest() && (!ok || math.Abs(listed-l.expiry) > clockSlack):
		s.failLock(l, "ends at %.0f, and is listed until %s", l.expiry, strconv.FormatFloat(listed, 'f', 0, 64))
	}
}

// judgeHolder holds that a job that went somewhere has its lock, if it must, and has none, if it has ended.
func (s *stride) judgeHolder(of *subject) {
	if !of.named || of.movedAt != s.Number {
		return
	}
	l := s.k.holders[of.jid]
	switch of.edge.Move {
	case Accepted:
		u, marked := uniquenessOf(of.text), valueOf(of.text, "duplicate-of")
		if u.Digest != "" && marked != "" {
			s.judgeMark(of, s.k.locks[u.Digest], marked)
		} else if u.Digest != "" && (of.edge.To == Queue || u.Scheduled) && (l == nil || l.digest != u.Digest) {
			s.violate(of, Locks, "it is accepted without its lock %s", u.Digest)
		}
	case Allowed, Missing, Illegal, Emigrated, Doubling:
		if l != nil {
			l.excused = true
		}
		return
	}
	switch {
	case l == nil || l.expiry <= s.latest():
	case of.over():
		s.failLock(l, "is left behind by a job that has ended")
	case of.edge.To == Retry || of.edge.To == Schedule:
		if due := of.score * 1000; l.expiry < due+l.rule.TTL-clockSlack {
			s.failLock(l, "ends %.0f ms after the job is due, and not %.0f", l.expiry-due, l.rule.TTL)
		}
	}
}

// judgeMark holds that a duplicate which was stored without the lock tells the truth of whose that is.
func (s *stride) judgeMark(of *subject, l *lock, marked string) {
	if l == nil || marked != strconv.Quote(l.owner()) || l.owner() == of.jid {
		s.violate(of, Locks, "it is accepted without a lock, as a duplicate of %s, which has none", marked)
	}
}

// over reports whether a job has ended: it is nowhere, or among the dead, who hold no locks.
func (of *subject) over() bool { return of.abroad == nil && (of.copies == 0 || of.edge.To == Dead) }

func (of *subject) inHand() bool { return of.edge.To == Working || of.edge.To == QuarantineRun }

// clockSlack is how far apart, in ms, two instants may be that one script wrote, if the server was stopped in
// between.
const clockSlack = 2000

// latest is the latest that it can have been, in ms, when the step was taken: its second is all that is
// written of it.
func (s *stride) latest() float64 {
	if s.At.IsZero() || s.k.clockMoves {
		return math.Inf(1)
	}
	return float64(s.At.Unix()+1)*1000 + clockSlack
}
