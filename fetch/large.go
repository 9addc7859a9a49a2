package fetch

import (
	"slices"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// An entry that is too large to be handed out is never in hand: it lies in one of our lists, known by its length and its two ends,
// until a script moves it to the dead set. Its bytes are sent neither way. If that script's call fails, the entry makes its list
// longer than what is in hand, so the next look names it again.

// tooLarge notes entries that are to be moved to the dead set.
func (f *Fetcher) tooLarge(life *Life, at place, large ...lua.Large) {
	for _, one := range large {
		list := f.cfg.Keys.Working(at.queue, life.Identity)
		if at.alone {
			list = f.cfg.Keys.QuarantineRun(life.Identity)
		}
		f.large = append(f.large, dedup.TooLarge(one, list, at.queue, f.cfg.Largest, f.cfg.Clock.Now(), f.cfg.Unit))
	}
}

// addTooLarge moves what is too large to the dead set, a few at a time: each is a copy of many bytes within Redis. The last one of a
// list goes first, so that the others are still where they were met.
func (f *Fetcher) addTooLarge(x *exchange) {
	const most = 4
	for range min(len(f.large), most) {
		last := len(f.large) - 1
		large := f.large[last]
		f.large = slices.Delete(f.large, last, last+1)
		ask := f.cfg.Keys.KillLarge(large)
		x.add(ask.Call, func(reply driver.Reply) {
			dead, err := ask.Read(reply)
			switch {
			case err != nil:
				large.Log(f.cfg.Log, f.cfg.Largest, err)
				f.fail("kill_large", err)
			case dead:
				large.Log(f.cfg.Log, f.cfg.Largest, nil)
			}
		})
	}
}
