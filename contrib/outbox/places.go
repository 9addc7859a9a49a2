package outbox

import (
	"maps"
	"slices"
	"time"

	"github.com/belayq/belay"
)

// later is the place of jobs that are scheduled; any other place is the name of a queue.
const later = ""

// places has those that Redis has refused. A relay knows them from its own pushes only, so another relay
// finds them out again.
type places struct {
	apart   []string             // of a refused claim: each is tried alone
	retryAt map[string]time.Time // refused alone; until then no claim has jobs of them
}

// of returns the places of the current claim's jobs, in order.
func (p *places) of(c claim, receipts []belay.Receipt) []string {
	if len(p.apart) > 0 { // it was made for the first of these
		return slices.Clone(p.apart[:1])
	}
	in := make(map[string]bool)
	for i, receipt := range receipts {
		if c.jobs[i].At.After(time.Now()) {
			in[later] = true
		} else {
			in[receipt.Queue] = true
		}
	}
	return slices.Sorted(maps.Keys(in))
}

// filter returns the places of which the next claim has jobs only, or none. There are no names while nothing is
// refused.
func (p *places) filter() (names []string, only bool) {
	for name, at := range p.retryAt {
		if time.Now().After(at) && !slices.Contains(p.apart, name) {
			p.apart = append(p.apart, name)
		}
	}
	if len(p.apart) > 0 {
		return p.apart[:1], true
	}
	return slices.Sorted(maps.Keys(p.retryAt)), false
}

// accepted records that Redis has stored jobs of these places.
func (p *places) accepted(o *Outbox, names []string) {
	for _, name := range names {
		if _, refused := p.retryAt[name]; refused {
			o.cfg.Logger.Info("outbox queue works again", "queue", name)
		}
		p.done(name)
	}
}

// done ends a place's being apart.
func (p *places) done(name string) {
	delete(p.retryAt, name)
	p.apart = slices.DeleteFunc(p.apart, func(place string) bool { return place == name })
}
