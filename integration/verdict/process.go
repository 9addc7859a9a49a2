package verdict

import (
	"slices"
	"time"

	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
)

// A process is one life, from its launch to its end. An instant that never came is 0.
type process struct {
	name string
	// up are its registrations, terms when it was asked to stop, quiet when it was first asked to take nothing more.
	up, terms []time.Duration
	names     []string // its identities
	quiet     time.Duration
	// killed is when it was sent SIGKILL, down when it said that it ends, gone when it had been waited for.
	killed, down, gone time.Duration
	launched, last     time.Duration // last is when it wrote anything
	health             []history.Event
	runs               []*run

	absences []absence // stalls included
	stalls   []absence
	troubles []span
}

// process answers the one of that name, and begins it if need be.
func (w *world) process(name string) *process {
	if w.procs[name] == nil {
		w.procs[name] = &process{name: name}
	}
	return w.procs[name]
}

func (w *world) readProcesses() {
	for _, e := range w.events {
		if e.Proc == "" || e.Kind == history.Begin || e.Kind == history.End || e.Kind == history.Phase {
			continue
		}
		p := w.process(e.Proc)
		switch e.Kind {
		case history.Launch:
			p.launched = e.At
		case history.Signalled:
			p.signalled(e)
		case history.Gone:
			p.gone = e.At
		case history.Up:
			p.up = append(p.up, e.At)
			if e.Text != "" {
				p.names = append(p.names, e.Text)
			}
		case history.Down:
			p.down = e.At
		case history.Health:
			p.health = append(p.health, e)
		}
		if e.Kind != history.Launch && e.Kind != history.Signalled && e.Kind != history.Gone {
			p.last = e.At
		}
	}
}

func (p *process) signalled(e history.Event) {
	switch e.Fault {
	case string(chaosplan.Kill):
		p.killed = or(p.killed, e.At)
	case string(chaosplan.Term):
		p.terms = append(p.terms, e.At)
		p.quiet = or(p.quiet, e.At)
	case string(chaosplan.Quiet):
		p.quiet = or(p.quiet, e.At)
	}
}

// graceful says whether the process came to its own end.
func (p *process) graceful() bool { return p.down != 0 && (p.killed == 0 || p.killed > p.down) }

// died answers the earliest instant at which the process may have died, and whether it has.
func (p *process) died() (time.Duration, bool) {
	switch {
	case p.killed != 0:
		return max(p.killed-fringe, min(p.last, p.killed)), true
	case p.graceful():
		return p.down, true
	case p.gone != 0:
		return p.last, true // of its own hand: after the last that it wrote
	}
	return 0, false
}

// settled is when the end of a handler at an instant must have come to Redis, if the process lived so long.
func (w *world) settled(p *process, finish time.Duration) time.Duration {
	at := finish
	for _, trouble := range p.troubles {
		if trouble.overlaps(span{at, at + w.facts.Settling}) {
			at = trouble.to
		}
	}
	if at >= forever-w.facts.Settling {
		return forever
	}
	return at + w.facts.Settling
}

// stalls are the times in which a process that was not to stand still wrote no sign of life for longer than a lease: the
// machine did not let it run.
func (w *world) stalls(p *process) []absence {
	const every = time.Second // between two Health events
	var found []absence
	for i := 1; i < len(p.health); i++ {
		gap := span{p.health[i-1].At, p.health[i].At}
		if gap.length() < every+w.facts.lease() || slices.ContainsFunc(w.faults, func(f fault) bool {
			return f.halted(p) && f.overlaps(gap)
		}) {
			continue
		}
		found = append(found, absence{span: gap, own: true, names: []string{stallOf(p)}})
	}
	return found
}

func stallOf(p *process) string { return "stall of " + p.name }
