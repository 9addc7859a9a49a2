package fetch

import (
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// An entry that is too large to be handed out is never in hand: it lies in one of our lists, known by its length and its two ends,
// until a script moves it to the dead set. Its bytes are sent neither way. If that script's call fails, the entry makes its list
// longer than what is in hand, so the next look names it again.

// addLarge notes entries that are to be moved to the dead set.
func (k *keyspace) addLarge(session *Session, at place, large ...lua.Large) {
	for _, one := range large {
		list := k.cfg.Keys.Working(at.queue, session.Identity)
		if at.quarantined {
			list = k.cfg.Keys.Alone(session.Identity)
		}
		k.large = append(k.large, newTooLarge(one, list, at.queue, k.cfg.Largest, k.cfg.Clock.Now(), k.cfg.Unit))
	}
}

// addTooLarge moves what is too large to the dead set, a few at a time: each is a copy of many bytes within Redis. The last one of a
// list goes first, so that the others are still where they were met.
func (k *keyspace) addTooLarge(p *pipeline) {
	const most = 4
	for range min(len(k.large), most) {
		last := len(k.large) - 1
		large := k.large[last]
		k.large = slices.Delete(k.large, last, last+1)
		ask := k.cfg.Keys.KillLarge(large)
		p.add(ask.Call, func(reply driver.Reply) {
			dead, err := ask.Read(reply)
			switch {
			case err != nil:
				logTooLarge(k.cfg.Log, large, k.cfg.Largest, err)
				k.fail("kill_large", err)
			case dead:
				logTooLarge(k.cfg.Log, large, k.cfg.Largest, nil)
			}
		})
	}
}

// newTooLarge is how an entry that is above limit goes to the dead set: with its reason, and without its lock.
func newTooLarge(one lua.Large, key, queue string, limit int, now time.Time, unit job.TimeUnit) lua.TooLarge {
	large := lua.NewTooLarge(one, key, queue, limit, now, unit)
	// A duplicate that was refused may have been promised one more run. That would be as large.
	if parsed, lock := dedup.ReadEnds(large.Head, large.Tail); !lock.None() {
		its := lockOf(lock, parsed.Class())
		large.Lock = &its
	}
	return large
}

// logTooLarge tells operators of an entry that was moved to the dead set for its size. After an error it may have been: the next look
// does not find one that has gone, so this line is the only one of it.
func logTooLarge(log zerolog.Logger, large lua.TooLarge, limit int, err error) {
	event := log.Error().Err(err).Int("bytes", large.Bytes).Int("limit", limit)
	if large.Queue != "" {
		event.Str("queue", large.Queue)
	}
	if parsed, _ := dedup.ReadEnds(large.Head, large.Tail); parsed != nil {
		event.Str("jid", parsed.JID()).Str("class", parsed.Class())
	}
	if err != nil {
		event.Msg("moving a job to the dead set: the payload is too large; the answer did not come")
		return
	}
	event.Msg("moved to the dead set: the payload is too large")
}
