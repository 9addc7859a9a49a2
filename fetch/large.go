package fetch

import (
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// An entry that is too large to run is never in the ledger. It stays in one of our lists, identified by its
// length and its first and last bytes, until a script moves it to the dead set. Its bytes are never sent. If
// the call of that script fails, the list is longer than the ledger says, so the next reading finds the entry
// again.

// addLarge records entries that must be moved to the dead set.
func (k *Keyspace) addLarge(session *Session, at place, large ...lua.Large) {
	for _, entry := range large {
		k.large = append(k.large, dedup.TooLarge(entry, k.listAt(session, at), at.queue, k.cfg.Largest, k.Clock.Now(), k.cfg.Unit))
	}
}

// addTooLarge moves entries that are too large to the dead set, a few at a time, because each move copies many
// bytes within Redis. The last one of a list goes first, so that the positions of the others stay valid.
func (k *Keyspace) addTooLarge(p *pipeline) {
	const maxMoves = 4
	for range min(len(k.large), maxMoves) {
		last := len(k.large) - 1
		calls, read := k.Keys.EndLarge(k.large[last], k.cfg.Log)
		k.large = k.large[:last]
		p.addAll(calls, func(replies []driver.Reply) {
			if _, err := read(replies[0]); err != nil {
				k.fail(err)
			}
		})
	}
}
