package launcher

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// beat is the pass of the heartbeat duty. It renews the session, passes on which processes have lapsed, obeys
// the signals of Ruby's remote control, and begins a new session if this one has ended.
func (s *shard) beat(ctx context.Context) error {
	session := s.session.Load()
	if session.Over() {
		return s.reregister(ctx)
	}
	leases := s.leases()
	watched := append(leases.watched(), s.space.Watched(session)...)
	reply, err := session.Beat(ctx, withExtra{s.lanes.heart, &s.extra}, s.keys, s.clock, watched...)
	if err != nil {
		s.janitor.Blind()
		return fmt.Errorf("beat: %w", err)
	}
	s.answered()
	s.rtt.Store(int64(reply.RTT))
	if reply.Restored {
		s.log.Warn("session record restored after a deletion or eviction", "identity", session.Identity)
	}
	if s.marks.Notice(reply.Marked) {
		s.marked.pull()
	}
	s.janitor.Look(reply.HeartbeatReply, reply.SentAt, reply.RTT)
	switch reply.State {
	case lua.StateAlive:
		s.space.Beaten(reply)
		s.presence.handleHeartbeat(reply)
	case lua.StateDead:
		s.log.Error("declared dead; cancelling handlers, re-registering with a new identity", "identity", session.Identity)
		return s.reregister(ctx)
	default:
		s.log.Error("redis lost its data; running jobs continue, re-registering with a new identity", "identity", session.Identity)
		return s.reregister(ctx)
	}
	leases.wake(reply.Free)
	for _, signal := range reply.Signals { // of Ruby's remote control
		s.log.Info("remote control", "signal", signal)
		s.launcher.obeyRemote(signal)
	}
	return nil
}

// An extra is calls of another duty that the next heartbeat sends in its pipeline, because a round trip of
// their own would cost Redis more than they do. They must be small and quick, and so must handle, because the
// heartbeat waits for them.
type extra struct {
	calls  []driver.Call
	handle func(replies []driver.Reply)
}

// withExtra is the client of a heartbeat. Its first pipeline carries the extra, if there is one.
type withExtra struct {
	driver.Client
	next *atomic.Pointer[extra]
}

// Do implements driver.Client.
func (c withExtra) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	extra := c.next.Swap(nil)
	if extra == nil {
		return c.Client.Do(ctx, calls...)
	}
	replies := c.Client.Do(ctx, slices.Concat(calls, extra.calls)...)
	extra.handle(replies[len(calls):])
	return replies[:len(calls)]
}

// answered records that Redis has answered a heartbeat.
func (s *shard) answered() { s.beatAt.Store(int64(s.sinceStart())) }

// sinceStart returns the time since the process has started.
func (s *shard) sinceStart() time.Duration { return time.Since(s.launcher.startedAt) }

// silence returns the time since Redis last answered a heartbeat.
func (s *shard) silence() time.Duration {
	return s.sinceStart() - time.Duration(s.beatAt.Load())
}

// reregister begins a new session under a new identity, unless the process is stopping.
func (s *shard) reregister(ctx context.Context) error {
	if s.launcher.stopping.Load() {
		return nil
	}
	former := s.session.Load()
	session, err := s.newSession(ctx, former.Identity)
	if err != nil {
		return err
	}
	s.log.Info("re-registered with a new identity", "identity", session.Identity, "formerly", former.Identity)
	s.space.Enter(session)
	s.presence.Stop(0) // it was the former session's
	return nil
}

// obeyRemote does what a signal from Redis means. It ignores a second order to stop, which would end the
// shutdown timeout: that order comes through each shard of the process, and from a button that is pressed
// twice.
func (l *Launcher) obeyRemote(signal string) {
	if (signal == "TERM" || signal == "INT") && l.stopping.Load() {
		return
	}
	l.Obey(signal)
}

// Obey does what the signal of this name means to Sidekiq: TSTP and USR1 quiet, TERM and INT stop, TTIN and
// INFO dump. It ignores other names, because another version's remote control may send them.
func (l *Launcher) Obey(signal string) {
	switch signal {
	case "TSTP", "USR1":
		l.Quiet()
	case "TERM", "INT":
		l.Stop()
	case "TTIN", "INFO":
		l.Dump()
	}
}
