package fetch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A HeartbeatReply is the reply to a heartbeat.
type HeartbeatReply struct {
	lua.HeartbeatReply
	// Restored reports that the session's record had been lost and that the heartbeat restored it.
	Restored bool
	// SentAt is when the heartbeat was sent, since boot.
	SentAt time.Duration
	// RTT is how long the reply took.
	RTT time.Duration
	// answeredAt is when the reply came, by this process' clock.
	answeredAt time.Time
	// watched reports that the heartbeat has looked at the process' lists.
	watched bool
}

// isList reports whether a watched key is one of Keyspace.Watched.
func isList(w lua.Watched) bool { return w.Hold == 0 }

// Beat renews the session and returns Redis' reply, which includes the watched keys: leases, and those of
// Keyspace.Watched. Most heartbeats of an idle process cost Redis little. A session that is dead or unknown
// stays so: register another. One goroutine at a time may call it.
func (s *Session) Beat(ctx context.Context, client driver.Client, keys lua.Keys, clock *lua.Clock, watched ...lua.Watched) (HeartbeatReply, error) {
	calm := s.calm
	s.calm = nil
	if calm != nil && s.prolonged < maxProlonged && slices.ContainsFunc(watched, isList) {
		reply, err := s.prolong(ctx, client, keys, clock, calm, watched)
		if reply.State == lua.StateAlive || err != nil {
			return reply, err
		}
	}
	sentAt, sentSinceBoot := time.Now(), lua.SinceBoot()
	answer, err := keys.Heartbeat(s.Identity, s.record.TTL, watched...).Do(ctx, client)
	if err != nil {
		return HeartbeatReply{}, err
	}
	reply := s.answered(answer, clock, sentAt, sentSinceBoot, watched)
	if reply.State == lua.StateUnrecorded {
		if reply.Restored, err = s.restore(ctx, client, keys); err != nil {
			return HeartbeatReply{}, err
		}
		if reply.State = lua.StateUnknown; reply.Restored {
			reply.State = lua.StateAlive
		}
	}
	switch reply.State {
	case lua.StateAlive:
		s.confirm(sentSinceBoot)
	case lua.StateDead:
		s.over.Store(true)
		s.end(ErrOwnershipLost)
	default:
		// Redis has lost its data, so no other process has the jobs either. Their handlers may finish.
		s.over.Store(true)
	}
	if s.prolonged = 0; reply.Calm() && !reply.Restored && reply.Subscribed >= 0 { // or a command would be denied
		s.calm = &reply
	}
	return reply, nil
}

// answered returns the reply to a heartbeat that was sent at these instants.
func (s *Session) answered(answer lua.HeartbeatReply, clock *lua.Clock, sentAt time.Time, sentSinceBoot time.Duration, watched []lua.Watched) HeartbeatReply {
	now := time.Now()
	clock.Saw(answer.Now, sentAt, now)
	return HeartbeatReply{
		HeartbeatReply: answer, SentAt: sentSinceBoot, RTT: lua.SinceBoot() - sentSinceBoot,
		answeredAt: now, watched: slices.ContainsFunc(watched, isList),
	}
}

const (
	// maxProlonged is how many heartbeats in a row are no script. Only the script notices a lease without an
	// end, and a record that was lost and written to since, by a call that does not make it whole. Neither
	// happens by itself, so half a minute between two scripts is short enough. If a clock was set back, which
	// makes leases and expiries long, the script comes at once.
	maxProlonged = 19
	// maxDrift: of so much time one part may be what Redis' clock is slower than this machine's. Clocks that
	// are being set slowly differ by half of it.
	maxDrift = 500
)

// prolong is a heartbeat without a script, after a calm one. Its reply is that of a session that is alive and
// has nothing to do, or the zero reply: then the caller must send a Heartbeat, at once.
//
// Only Redis knows its time, so the call names no expiry, but what to add to it. By the last heartbeat this
// process knows the session's expiry and what time it was at Redis, and at least as much time has passed
// there as here since that reply came. So the sum is early by two round trips at most, and never late. The
// reply shows by how much it is early, and the lease ends so much sooner. If it is more than the round trips
// were, a clock was set.
func (s *Session) prolong(ctx context.Context, client driver.Client, keys lua.Keys, clock *lua.Clock, last *HeartbeatReply, watched []lua.Watched) (none HeartbeatReply, err error) {
	sentAt, sentSinceBoot, margin := time.Now(), lua.SinceBoot(), s.record.Beat/8
	passed := sentAt.Sub(last.answeredAt)
	now := last.Now.Add(passed - passed/maxDrift)
	by := now.Add(s.record.TTL).Sub(last.Expiry)
	// A call that is executed after the heartbeat that follows it makes the expiry late by so much, until the
	// one after that; no process takes it for wrong (see heartbeat.lua). On a slow link it would be too early.
	if last.RTT > margin || by < time.Millisecond || by > 2*s.record.Beat {
		return none, nil
	}
	calls, read := keys.Prolong(s.Identity, by, now, last.Marked, watched...)
	found, err := read(client.Do(ctx, calls...))
	var refused *driver.ServerError
	switch {
	case err != nil && !errors.As(err, &refused):
		return none, err
	case err != nil || !found.Calm:
		return none, nil //nolint:nilerr // a full Redis, for one, refuses the commands, and not the script
	}
	reply := s.answered(lua.HeartbeatReply{
		State: lua.StateAlive, Now: found.Now, Expiry: found.Expiry, Marked: last.Marked, Subscribed: found.Subscribed,
	}, clock, sentAt, sentSinceBoot, watched)
	early := found.Now.Add(s.record.TTL).Sub(found.Expiry)
	if early < 0 || early > last.RTT+reply.RTT+margin || !found.Expiry.After(found.Now) {
		return none, nil
	}
	s.confirm(max(sentSinceBoot-early, time.Duration(s.confirmedAt.Load())))
	s.calm, s.prolonged = &reply, s.prolonged+1
	return reply, nil
}
