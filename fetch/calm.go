package fetch

// Most processes of a fleet have nothing in hand most of the time, and looks that find empty lists would be half of what they
// ask of Redis. So the beat of a calm process looks for it: an empty list is no key, and while none of the
// keys is there that a look would read, there is nothing to see.

// A calm is a life that has nothing in hand, with the keys that a look would read.
type calm struct {
	life *Life
	keys []string
}

// mostUnlooked is how many beats in a row stand for looks at most: a look is also what finds out that our own connection
// is dead before a job needs it.
const mostUnlooked = 3

// Watched are the keys for life's next beat to ask for; none when a look is needed anyway. Unlike other methods it may be called
// from any goroutine.
func (f *Fetcher) Watched(life *Life) []string {
	if at := f.calm.Load(); at != nil && at.life == life {
		return at.keys
	}
	return nil
}

// Look makes sure, after each confirmed beat, that what lies in our lists and which queues are paused is known: the beat has
// said it, or the next turn reads it.
func (f *Fetcher) Look(pulse Pulse) {
	f.renew, f.fenced, f.waits.yielded = true, false, false
	if len(f.broken) > 0 {
		f.dry = false
	}
	if f.isCalm() && pulse.watched && pulse.There == 0 && f.unlooked < mostUnlooked {
		f.unlooked++
		return
	}
	f.look, f.unlooked = true, 0
}

// isCalm says whether nothing is in hand, and nothing is known or suspected that a look would have to settle.
func (f *Fetcher) isCalm() bool {
	s := &f.suspects
	return f.life != nil && !f.look && f.handsEmpty() && f.outage.since.IsZero() && len(f.paused) == 0 &&
		!f.strays.unsure && len(s.queues) == 0 && s.draining == "" && !s.doubt
}

// noteCalm lets Watched know whether we are calm.
func (f *Fetcher) noteCalm() {
	at := f.calm.Load()
	switch {
	case !f.isCalm():
		if at != nil {
			f.calm.Store(nil)
		}
	case at == nil || at.life != f.life:
		f.calm.Store(&calm{life: f.life, keys: append(f.listsToSee(f.cfg.Order.Names()), f.cfg.Keys.Paused())})
	}
}
