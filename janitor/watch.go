package janitor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

const (
	// LookEvery is the time between two looks at the subscriptions of all sessions. A killed process is seen
	// for the first time after so long at most.
	LookEvery = time.Second
	// aloneEvery is the time between two looks while there is no other session: the first look at another one
	// comes later, but the series does not break.
	aloneEvery = 2 * LookEvery
	// nextLook is the minimum time between two looks, when a look shortly after the last one can decide.
	nextLook = 50 * time.Millisecond
	// maxLookGap is how far two looks may be apart: the regular time, and as much again for a busy machine.
	maxLookGap = 2500 * time.Millisecond
	// watcherHold is how long the leases of watcher and deputy last: three looks, so that a late one loses
	// none.
	watcherHold = 3 * LookEvery
	// maxShift is how far Redis' clock may be off ours at a look, compared with the look before. A shift that
	// is not noticed must be less than the margin of a watched session's lease.
	maxShift = 100 * time.Millisecond
)

// A watch finds sessions whose subscription is gone. Two processes of a fleet watch: the watcher, and a deputy
// that judges by the same rules and looks at all sessions too. So the death of a watcher is found, and other
// deaths that come with it. Each session has a channel of its own, and Redis drops its subscription as soon as
// the process is killed. A broken connection does the same, so what counts is that no heartbeat follows either.
type watch struct {
	heldAs atomic.Value // a string: the identity under which this process has its lease; "" if it has none
	lease  string       // the key of that lease
	pages  int          // how many pages of sessions the next look reads
	sight  *sight       // nil while there is none
}

// A sight is what an unbroken series of looks has seen. Sight breaks with everything that makes this process
// mistake its own trouble, or Redis', for the absence of others.
type sight struct {
	presence time.Duration // since when this process has its own subscription, since boot
	breaks   int           // see Janitor.breaks
	began    time.Duration // when the first look was answered, since boot
	sentAt   time.Duration // when the last look was sent, since boot
	// ahead bounds how far Redis' clock was ahead of the time since boot at the last look.
	ahead    [2]time.Duration
	sessions map[string]*seen
}

// seen is what is known of a session.
type seen struct {
	expiry  time.Time     // at the first look that did not find its subscription
	sentAt  time.Duration // when the last look was sent that found it, since boot
	present bool          // a look found its subscription, and no heartbeat has come without it since
	goneAt  time.Duration // when the first look that did not find its subscription was answered, since boot; or 0
	record  *lua.Record   // read when it is first gone
}

// A look is a page of what Redis has answered.
type look struct {
	lua.Present
	sentAt, answeredAt time.Duration // since boot
}

// Watch makes this process, with the identity me, look at the subscriptions of all sessions if it is the
// watcher or the deputy. It declares those dead whose absence is certain, and their jobs are left to Pass.
// presence is since when this process has its own subscription, since boot: without one, 0, it sees nothing.
// next is the time until the next call; 0 means the usual period.
func (j *Janitor) Watch(ctx context.Context, me string, presence time.Duration) (next time.Duration, err error) {
	j.watching.Lock()
	defer j.watching.Unlock()
	w := &j.watch
	if w.heldAs.Load() != me || presence == 0 {
		w.sight = nil
	}
	if presence == 0 {
		w.heldAs.Store("")
		return 0, nil
	}
	if err := j.watchLink.Check(ctx); err != nil {
		w.sight = nil
		return 0, err
	}
	if w.heldAs.Load() != me {
		return j.askToWatch(ctx, me)
	}
	looks, held, err := j.lookAtAll(ctx, me)
	if err != nil || !held {
		w.sight = nil
		w.heldAs.Store("")
		return 0, j.watchLink.Excused(err)
	}
	gone, due := j.see(looks, presence)
	err = errors.Join(j.readGone(ctx, gone), j.declareAbsent(ctx, looks))
	if driver.Outage(err) {
		w.sight = nil
	}
	return due, j.watchLink.Excused(err)
}

// askToWatch asks for the lease of the watcher, and then for the deputy's, which a process that is the watcher
// must leave to others.
func (j *Janitor) askToWatch(ctx context.Context, me string) (next time.Duration, err error) {
	for _, lease := range j.WatchLeases(me) {
		held, err := lua.Lease(lease.Key, me, lease.Hold).Do(ctx, &j.watchLink)
		if err != nil {
			return 0, j.watchLink.Excused(fmt.Errorf("ask to be the watcher: %w", err))
		}
		if held {
			j.watch.heldAs.Store(me)
			j.watch.lease = lease.Key
			return nextLook, nil
		}
	}
	return lua.StandBy, nil
}

// WatchLeases returns the leases of watcher and deputy; none if the process with the identity me has one.
func (j *Janitor) WatchLeases(me string) []lua.Watched {
	if j.watch.heldAs.Load() == me {
		return nil
	}
	return []lua.Watched{{Key: j.cfg.Keys.Watcher(), Hold: watcherHold}, {Key: j.cfg.Keys.Deputy(), Hold: watcherHold}}
}

// lookAtAll renews the lease and reads all pages of sessions, in one round trip.
func (j *Janitor) lookAtAll(ctx context.Context, me string) (looks []look, held bool, err error) {
	lease := lua.Lease(j.watch.lease, me, watcherHold)
	calls := []driver.Call{lease.Call}
	var pages []lua.Ask[lua.Present]
	for n := range max(j.watch.pages, 1) {
		page := j.cfg.Keys.LookAtPresence(me, n*lua.MaxItems)
		pages, calls = append(pages, page), append(calls, page.Call)
	}
	sentAt := lua.SinceBoot()
	replies := j.watchLink.Do(ctx, calls...)
	answeredAt := lua.SinceBoot()
	if held, err = lease.Read(replies[0]); err != nil {
		return nil, false, fmt.Errorf("stay the watcher: %w", err)
	}
	for i, page := range pages {
		present, err := page.Read(replies[i+1])
		if err != nil {
			return nil, false, fmt.Errorf("look which sessions have their subscription: %w", err)
		}
		looks = append(looks, look{present, sentAt, answeredAt})
		if len(present.Sessions) > 0 {
			// One that is full has a page behind it; the first look since a fleet has grown misses some.
			j.watch.pages = i + 1 + len(present.Sessions)/lua.MaxItems
		}
	}
	return looks, held, nil
}

// see records what looks of one instant have seen. It returns the sessions that are gone and whose record was
// not read yet, and when the next look is due.
func (j *Janitor) see(looks []look, presence time.Duration) (gone []string, next time.Duration) {
	j.mu.Lock()
	breaks := j.breaks
	j.mu.Unlock()
	w := &j.watch
	for _, l := range looks {
		if !l.Self { // our subscription is on another server, or gone: then those of others may be too
			w.sight = nil
			return nil, 0
		}
		if w.sight == nil || w.sight.presence != presence || w.sight.breaks != breaks || !w.sight.follows(l) {
			w.sight = &sight{presence: presence, breaks: breaks, began: l.answeredAt, sessions: make(map[string]*seen)}
		}
		w.sight.note(l)
	}
	next = LookEvery
	if len(w.sight.sessions) < 2 {
		next = aloneEvery
	}
	for identity, session := range w.sight.sessions {
		switch {
		case session.goneAt == 0 || session.sentAt != looks[0].sentAt:
		case session.record == nil:
			gone, next = append(gone, identity), nextLook
		default:
			next = min(next, max(w.sight.due(session, looks[0]), nextLook))
		}
	}
	return gone, next
}

// follows reports whether a look continues the series: it came in time, and Redis' clock was not set since the
// last look.
func (s *sight) follows(l look) bool {
	ahead := l.ahead()
	return l.answeredAt-s.sentAt <= maxLookGap &&
		ahead[0] <= s.ahead[1]+maxShift && ahead[1] >= s.ahead[0]-maxShift
}

// ahead returns bounds for how far Redis' clock is ahead of the time since boot.
func (l look) ahead() [2]time.Duration {
	now := time.Duration(l.Now.UnixNano())
	return [2]time.Duration{now - l.answeredAt, now - l.sentAt}
}

// note records what a look has seen.
func (s *sight) note(l look) {
	s.sentAt, s.ahead = l.sentAt, l.ahead()
	for _, found := range l.Sessions {
		session := s.sessions[found.Identity]
		if session == nil {
			session = &seen{}
			s.sessions[found.Identity] = session
		}
		session.sentAt = l.sentAt
		switch {
		case found.Subscribed:
			session.present, session.goneAt = true, 0
		case session.goneAt != 0 && !session.expiry.Equal(found.Expiry):
			session.present, session.goneAt = false, 0 // it lives, without its subscription
		case session.present && session.goneAt == 0:
			session.goneAt, session.expiry = l.answeredAt, found.Expiry
		}
	}
	for identity, session := range s.sessions {
		if l.sentAt-session.sentAt > maxLookGap {
			delete(s.sessions, identity) // it has lapsed, and its TTL decides
		}
	}
}

// due returns the time from a look to the instant at which the absence of a session is long enough: two looks
// that do not find its subscription, and its last heartbeat, must be old enough, and this process must have
// seen Redis' clock for as long.
func (s *sight) due(session *seen, l look) time.Duration {
	needed := session.record.Beat + lua.AbsentAfter
	beatAt := session.expiry.Add(-session.record.TTL)
	return max(session.goneAt+lua.AbsentAfter-l.sentAt, s.began+needed-l.sentAt, needed-l.Now.Sub(beatAt))
}

// readGone reads the records of sessions that are gone, and asks for a heartbeat of our own: one must be
// confirmed before a verdict.
func (j *Janitor) readGone(ctx context.Context, gone []string) error {
	if len(gone) == 0 {
		return nil
	}
	j.cfg.Absent()
	gone = gone[:min(len(gone), maxRecords)]
	records, _, err := j.cfg.Keys.ReadRecords(ctx, &j.watchLink, gone)
	if err != nil {
		return fmt.Errorf("read the records of absent processes: %w", err)
	}
	for _, identity := range gone {
		if record, ok := records[identity]; ok {
			j.watch.sight.sessions[identity].record = &record
		} else {
			delete(j.watch.sight.sessions, identity) // its TTL decides, and the error is the janitor's to report
		}
	}
	return nil
}

// A verdict is that a session is absent, by a look at an instant of Redis' clock.
type verdict struct {
	identity string
	*seen
	lookedAt time.Time
}

// absent returns the sessions whose absence is certain by these looks, as many as fit into one pipeline.
func (j *Janitor) absent(looks []look) (verdicts []verdict) {
	j.mu.Lock()
	beatAt, breaks := j.last.sinceBoot, j.breaks
	j.mu.Unlock()
	s := j.watch.sight
	if s == nil || s.breaks != breaks {
		return nil
	}
	lists := 0
	for _, l := range looks {
		for _, found := range l.Sessions {
			session := s.sessions[found.Identity]
			// A server that answers looks and holds heartbeats (CLIENT PAUSE) makes every process look absent,
			// so a heartbeat of our own that was sent after the first look must have been confirmed.
			if session == nil || session.goneAt == 0 || session.record == nil || lists > maxLists ||
				s.due(session, l) > 0 || beatAt < session.goneAt {
				continue
			}
			lists += 1 + len(session.record.Queues)
			verdicts = append(verdicts, verdict{found.Identity, session, l.Now})
		}
	}
	return verdicts
}

// declareAbsent declares the sessions dead whose absence is certain by these looks. Redis checks again.
func (j *Janitor) declareAbsent(ctx context.Context, looks []look) error {
	verdicts := j.absent(looks)
	if len(verdicts) == 0 {
		return nil
	}
	asks, calls := lua.AskEach(verdicts, func(v verdict) lua.Ask[lua.Recovered] {
		return j.cfg.Keys.DeclareDead(v.identity, v.record.Queues, lua.Absence{Expiry: v.expiry, LookedAt: v.lookedAt}, v.lookedAt)
	})
	var errs error
	for i, reply := range j.watchLink.Do(ctx, calls...) {
		answer, err := asks[i].Read(reply)
		v := verdicts[i]
		switch {
		case driver.Outage(err):
			return fmt.Errorf("declare an absent process dead: %w", err)
		case err != nil:
			errs = errors.Join(errs, fmt.Errorf("declare %s dead: %w", v.identity, err))
			delete(j.watch.sight.sessions, v.identity) // its TTL decides
		case answer.State == lua.StateDead:
			j.noteDead(v.identity)
			delete(j.watch.sight.sessions, v.identity)
		}
	}
	return errs
}

// noteDead records that a process has a tombstone, and makes the next Pass recover its jobs. That reads the
// record again: until the tombstone the process may have taken jobs of a queue that it did not serve before.
func (j *Janitor) noteDead(identity string) {
	j.cfg.Log.Warn("process declared dead: its subscription is gone and no heartbeat came", "dead", identity)
	at := lua.SinceBoot()
	j.mu.Lock()
	j.lapsed[identity] = &suspected{first: at, last: at, dead: true}
	j.mu.Unlock()
	j.cfg.Absent()
}
