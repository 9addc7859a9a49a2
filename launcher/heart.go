package launcher

import (
	"context"
	"fmt"
	"time"

	"github.com/belayq/belay/lua"
)

// beat is the heart's pass: stay alive, hear who has lapsed and what Ruby's remote control says, and start a new life
// when this one is over.
func (l *Launcher) beat(ctx context.Context) error {
	life := l.life.Load()
	if life.Over() {
		return l.rebirth(ctx)
	}
	pulse, err := life.Beat(ctx, l.lanes.heart, l.keys, l.clock, l.manager.fetcher.Watched(life)...)
	if err != nil {
		l.janitor.Blind()
		return fmt.Errorf("beat: %w", err)
	}
	l.heard()
	l.rtt.Store(int64(pulse.RTT()))
	if pulse.Restored {
		l.cfg.Log.Warn().Str("identity", life.Identity).Msg("session record restored: it had been deleted or evicted")
	}
	l.janitor.Look(pulse.HeartbeatReply, pulse.SentAt)
	switch pulse.State {
	case lua.StateAlive:
		select {
		case l.looks <- pulse:
		default: // the manager has not come to the last one yet
		}
	case lua.StateDead:
		l.cfg.Log.Error().Str("identity", life.Identity).
			Msg("declared dead while we were away: our jobs were recovered, their handlers are cancelled, we go on under a new name")
		return l.rebirth(ctx)
	default:
		l.cfg.Log.Error().Str("identity", life.Identity).
			Msg("redis has forgotten us: its data was lost or flushed; running jobs go on, we go on under a new name")
		return l.rebirth(ctx)
	}
	for _, signal := range pulse.Signals {
		l.signal(signal)
	}
	return nil
}

// heard records that Redis has answered a heartbeat.
func (l *Launcher) heard() { l.beatAt.Store(int64(time.Since(l.startedAt))) }

// silence returns how long Redis has not answered a heartbeat.
func (l *Launcher) silence() time.Duration {
	return time.Since(l.startedAt) - time.Duration(l.beatAt.Load())
}

// rebirth starts a new life; a process that is stopping has no use for one.
func (l *Launcher) rebirth(ctx context.Context) error {
	if l.asked.Load() {
		return nil
	}
	former := l.life.Load()
	life, err := l.reincarnate(ctx, former.Identity)
	if err != nil {
		return err
	}
	l.cfg.Log.Info().Str("identity", life.Identity).Str("formerly", former.Identity).Msg("reborn")
	l.manager.reborn <- life
	return nil
}

// signal obeys Ruby's remote control. Names that mean nothing here are left alone: another version may send them.
func (l *Launcher) signal(name string) {
	l.cfg.Log.Info().Str("signal", name).Msg("remote control")
	switch name {
	case "TSTP", "USR1":
		l.Quiet()
	case "TERM", "INT":
		l.Stop()
	case "TTIN", "INFO":
		l.Dump()
	}
}
