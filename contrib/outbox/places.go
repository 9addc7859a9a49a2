package outbox

import (
	"maps"
	"slices"
	"time"

	"github.com/belayq/belay"
)

// later is the place of jobs that are scheduled; any other place is the name of a queue.
const later = ""

// places are those whose jobs Redis has refused. A relay learns of them from its own pushes, so another relay
// learns of them anew.
type places struct {
	isolated []string             // those of a refused claim: the next claims have jobs of one of them each
	retryAt  map[string]time.Time // those of a refused claim of one place: until then no claim has jobs of them
}

// of returns the places of the current claim's jobs, in order.
func (p *places) of(c claim, receipts []belay.Receipt) []string {
	if len(p.isolated) > 0 { // the claim was made for the first of them
		return slices.Clone(p.isolated[:1])
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

// filter returns the names of places. If only is true, all jobs of the next claim must be of these places, else
// none may be. Without names, they may be of any place.
func (p *places) filter() (names []string, only bool) {
	for name, at := range p.retryAt {
		if time.Now().After(at) && !slices.Contains(p.isolated, name) {
			p.isolated = append(p.isolated, name)
		}
	}
	if len(p.isolated) > 0 {
		return p.isolated[:1], true
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

// done removes a place: its jobs may be claimed together with others again.
func (p *places) done(name string) {
	delete(p.retryAt, name)
	p.isolated = slices.DeleteFunc(p.isolated, func(place string) bool { return place == name })
}
