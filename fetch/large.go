package fetch

import (
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// An entry that is too large to be handed out is never in hand: it lies in one of our lists, known by its
// length and its two ends, until a script moves it to the dead set. Its bytes are sent neither way. If that
// script's call fails, the entry makes its list longer than what is in hand, so the next look names it
// again.

// addLarge notes entries that must be moved to the dead set.
func (k *Keyspace) addLarge(session *Session, at place, large ...lua.Large) {
	for _, one := range large {
		k.large = append(k.large, dedup.TooLarge(one, k.listAt(session, at), at.queue, k.cfg.Largest, k.Clock.Now(), k.cfg.Unit))
	}
}

// addTooLarge moves what is too large to the dead set, a few at a time: each is a copy of many bytes within
// Redis. The last one of a list goes first, so that the others are still where they were met.
func (k *Keyspace) addTooLarge(p *pipeline) {
	const most = 4
	for range min(len(k.large), most) {
		last := len(k.large) - 1
		large := k.large[last]
		k.large = k.large[:last]
		ask := k.Keys.KillLarge(large)
		p.add(ask.Call, func(reply driver.Reply) {
			dead, err := ask.Read(reply)
			switch {
			case err != nil:
				large.Log(k.cfg.Log, k.cfg.Largest, err)
				k.fail(err)
			case dead:
				large.Log(k.cfg.Log, k.cfg.Largest, nil)
			}
		})
		if large.State != nil {
			p.add(k.Keys.AnnounceEnded([]string{large.State.JID}), func(driver.Reply) {})
		}
	}
}
