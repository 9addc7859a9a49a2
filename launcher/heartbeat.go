package launcher

import (
	"context"
	"fmt"
	"time"

	"github.com/belayq/belay/lua"
)

// beat is the pass of the heartbeat duty. It renews the session, passes on which processes have lapsed, obeys
// the signals of Ruby's remote control, and begins a new session if this one has ended.
func (l *Launcher) beat(ctx context.Context) error {
	session := l.session.Load()
	if session.Over() {
		return l.reregister(ctx)
	}
	leases := l.leases()
	watched := append(leases.watched(), l.space.Watched(session)...)
	reply, err := session.Beat(ctx, l.lanes.heart, l.keys, l.clock, l.presence.brief(), watched...)
	if err != nil {
		l.janitor.Blind()
		l.presence.doubt()
		return fmt.Errorf("beat: %w", err)
	}
	l.answered()
	l.rtt.Store(int64(reply.RTT))
	if reply.Restored {
		l.cfg.Log.Warn("session record restored after a deletion or eviction", "identity", session.Identity)
	}
	if l.marks.Notice(reply.Marked) {
		l.marked.pull()
	}
	l.janitor.Look(reply.HeartbeatReply, reply.SentAt, reply.RTT)
	switch reply.State {
	case lua.StateAlive:
		l.space.Beaten(reply)
		l.presence.handleHeartbeat(reply)
	case lua.StateDead:
		l.cfg.Log.Error("declared dead; cancelling handlers, re-registering with a new identity", "identity", session.Identity)
		return l.reregister(ctx)
	default:
		l.cfg.Log.Error("redis lost its data; running jobs continue, re-registering with a new identity", "identity", session.Identity)
		return l.reregister(ctx)
	}
	leases.wake(reply.Free)
	for _, signal := range reply.Signals { // of Ruby's remote control
		l.cfg.Log.Info("remote control", "signal", signal)
		l.Obey(signal)
	}
	return nil
}

// answered records that Redis has answered a heartbeat.
func (l *Launcher) answered() { l.beatAt.Store(int64(time.Since(l.startedAt))) }

// silence returns the time since Redis last answered a heartbeat.
func (l *Launcher) silence() time.Duration {
	return time.Since(l.startedAt) - time.Duration(l.beatAt.Load())
}

// reregister begins a new session under a new identity, unless the process is stopping.
func (l *Launcher) reregister(ctx context.Context) error {
	if l.stopping.Load() {
		return nil
	}
	former := l.session.Load()
	session, err := l.newSession(ctx, former.Identity)
	if err != nil {
		return err
	}
	l.cfg.Log.Info("re-registered with a new identity", "identity", session.Identity, "formerly", former.Identity)
	l.space.Enter(session)
	l.presence.Stop(0) // it was the former session's
	return nil
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
