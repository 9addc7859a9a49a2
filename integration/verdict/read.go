package verdict

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
)

// A world is what a verdict is made of: the events, by what they are about.
type world struct {
	Facts
	events []history.Event
	procs  map[string]*process
	tokens map[string]*token
	order  []*token // by their first events
	faults []fault
	clock  []step
	// unreadable is what was left that is no job of the histories.
	unreadable []Remnant
	verdict    *Verdict
}

// A token is one job as the histories know it.
type token struct {
	name   string
	pushes []*push
	runs   []*run // by their starts
	left   []remnant
	// marked says that an operator may have cancelled it.
	marked bool
}

// A push is one attempt to put a job in. answer is empty until the pusher has read it.
type push struct {
	invoked time.Duration
	answer  history.Kind
	event   history.Event
}

// A remnant is where a token lay at the end, and what its payload says.
type remnant struct {
	place string
	held  payload
}

type payload struct {
	Args       []json.RawMessage `json:"args"`
	RetryCount *int              `json:"retry_count"`
	ErrorClass string            `json:"error_class"`
}

// A run is one start of a handler, and its end if it came: finish is 0 otherwise.
type run struct {
	token                 *token
	next                  *run // of the same token
	proc                  *process
	start, finish         time.Duration
	outcome               string
	failures, interrupted int
	// cancelled is set when Belay itself ended the context.
	cancelled bool
	// resumed is when the run had read its cursor; items are when it had done each item after that.
	resumed time.Duration
	cursor  int
	items   []time.Duration
}

// A process is one worker or pusher, from its launch to its end. An instant that never came is 0.
type process struct {
	name string
	// up is its registration, quiet the first signal after which it takes nothing more, killed a SIGKILL, down
	// its own end, gone when it had been waited for, and last its last record.
	up, quiet, killed, down, gone, last time.Duration
	works                               bool // it is a worker, no pusher
	runs                                []*run
}

// A fault is one that lasted, of a process or, without one, of Redis or the whole fleet.
type fault struct {
	span
	name, proc string
}

// A step is a change of Redis' clock.
type step struct{ at, shift time.Duration }

// slows are the faults under which every call still succeeds. They excuse nothing but a late settle.
var slows = []chaosplan.Fault{chaosplan.Delay, chaosplan.Latency, chaosplan.Bandwidth, chaosplan.FlushScripts, chaosplan.Full}

func (f fault) slow() bool { return slices.Contains(slows, chaosplan.Fault(f.name)) }

// fringe is how far from the event its record may be: a signal is sent, and then that is written down.
const fringe = 100 * time.Millisecond

func (w *world) process(name string) *process {
	if w.procs[name] == nil {
		w.procs[name] = &process{name: name}
	}
	return w.procs[name]
}

func (w *world) token(name string) *token {
	if w.tokens[name] == nil {
		w.tokens[name] = &token{name: name}
		w.order = append(w.order, w.tokens[name])
	}
	return w.tokens[name]
}

func (w *world) read() {
	runs, begun := make(map[string]*run), make(map[[2]string]time.Duration)
	for _, e := range w.events {
		if e.Kind == history.Begin || e.Kind == history.End {
			w.readFault(e, begun)
			continue
		}
		w.readProcess(e)
		w.readJob(e, runs)
	}
	for key, from := range begun {
		to := w.end()
		if p := w.procs[key[1]]; p != nil && p.gone != 0 {
			to = p.gone
		}
		w.faults = append(w.faults, fault{span{from, to}, key[0], key[1]})
	}
	for _, lies := range w.Left {
		var held payload
		name := ""
		if json.Unmarshal([]byte(lies.Payload), &held) == nil && len(held.Args) > 0 {
			_ = json.Unmarshal(held.Args[0], &name) // anything but a string is no token
		}
		if name == "" {
			w.unreadable = append(w.unreadable, lies)
			continue
		}
		w.token(name).left = append(w.token(name).left, remnant{lies.Place, held})
	}
}

func (w *world) end() time.Duration {
	if len(w.events) == 0 {
		return 0
	}
	return w.events[len(w.events)-1].At
}

// readFault pairs the beginnings and ends of faults. An end alone is a fault of one instant.
func (w *world) readFault(e history.Event, begun map[[2]string]time.Duration) {
	key := [2]string{e.Fault, e.Proc}
	from, lasted := begun[key]
	switch {
	case e.Shift != 0:
		w.clock = append(w.clock, step{e.At, e.Shift})
		from = e.At
	case e.Kind == history.Begin:
		if !lasted {
			begun[key] = e.At
		}
		return
	case !lasted:
		from = e.At
	}
	delete(begun, key)
	w.faults = append(w.faults, fault{span{from - fringe, e.At + fringe}, e.Fault, e.Proc})
}

func (w *world) readProcess(e history.Event) {
	if e.Proc == "" {
		return
	}
	p := w.process(e.Proc)
	first := func(at *time.Duration) {
		if *at == 0 {
			*at = e.At
		}
	}
	switch e.Kind {
	case history.Launch:
		return
	case history.Gone:
		p.gone = e.At
		return
	case history.Signalled:
		switch chaosplan.Fault(e.Fault) {
		case chaosplan.Kill:
			first(&p.killed)
		case chaosplan.Term, chaosplan.Quiet:
			first(&p.quiet)
		}
		return
	case history.Up:
		first(&p.up)
		p.works = e.Text != "" // its identity; a pusher has none
	case history.Down:
		p.down = e.At
	case history.Health:
		// One a second: in a longer gap the machine did not let it run.
		if p.last != 0 && e.At-p.last > time.Second+w.TTL/2 {
			w.faults = append(w.faults, fault{span{p.last, e.At}, "stall", p.name})
		}
	}
	p.last = e.At
}

func (w *world) readJob(e history.Event, runs map[string]*run) {
	switch e.Kind {
	case history.Invoke:
		t := w.token(e.Token)
		t.pushes = append(t.pushes, &push{invoked: e.At, event: e})
	case history.Accepted, history.Refused, history.Unknown:
		for _, p := range w.token(e.Token).pushes {
			if p.answer == "" && p.event.Proc == e.Proc {
				p.answer = e.Kind
				return
			}
		}
	case history.Marked:
		w.token(e.Token).marked = true
	case history.Start:
		t, p := w.token(e.Token), w.process(e.Proc)
		r := &run{token: t, proc: p, start: e.At, failures: e.Failures, interrupted: e.Interrupted}
		if last := len(t.runs) - 1; last >= 0 {
			t.runs[last].next = r
		}
		runs[e.Run], t.runs, p.runs = r, append(t.runs, r), append(p.runs, r)
		w.judgeStart(t, e)
	case history.Cancelled:
		// A job's own timeout is a failure. The others are none of its own.
		if r := runs[e.Run]; r != nil && (strings.Contains(e.Text, "an operator cancelled") || strings.Contains(e.Text, "shutdown") || strings.Contains(e.Text, "ownership lost")) {
			r.cancelled = true
		}
	case history.Resumed:
		if r := runs[e.Run]; r != nil {
			r.resumed, r.cursor = e.At, e.Item
		}
	case history.ItemDone:
		if r := runs[e.Run]; r != nil {
			if e.Item != r.last()+1 {
				w.violate(Skipped, e.Token, "a run did item %d after item %d", e.Item, r.last())
			}
			r.items = append(r.items, e.At)
		}
	case history.Finish:
		if r := runs[e.Run]; r != nil && r.finish == 0 {
			r.finish, r.outcome = e.At, e.Outcome
		}
	}
}

// spec returns what the job must do.
func (t *token) spec() history.Spec {
	for _, p := range t.pushes {
		if p.event.Spec != nil {
			return *p.event.Spec
		}
	}
	return history.Spec{Retries: -1}
}

func (t *token) stored() bool {
	return len(t.runs) > 0 || slices.ContainsFunc(t.pushes, func(p *push) bool { return p.answer == history.Accepted })
}

// ended reports whether the run ended with an outcome that is the job's end. What a handler says after Belay
// has cancelled it counts only if it is done.
func (r *run) ended(outcomes ...string) bool {
	return r.finish != 0 && slices.Contains(outcomes, r.outcome) && (!r.cancelled || r.outcome == history.OK)
}

func (r *run) failed() bool {
	return !r.cancelled && r.ended(history.Failed, history.Panics, history.Exits, history.Later, history.Stopped)
}

// span is the time in which the handler ran.
func (r *run) span() span {
	if r.finish != 0 {
		return span{r.start, r.finish}
	}
	return span{r.start, max(earliest(r.proc.killed, r.proc.gone), r.start)}
}

// died returns when the process died otherwise than by a graceful stop.
func (p *process) died() (at time.Duration, ok bool) {
	switch {
	case p.down != 0 && (p.killed == 0 || p.killed > p.down):
		return 0, false
	case p.killed != 0:
		return p.killed, true
	}
	return p.last, p.gone != 0 // by itself, after the last that it wrote
}

// until returns the first instant at which the process took no more jobs, or forever.
func (p *process) until() time.Duration { return earliest(p.quiet, p.killed, p.down, p.gone) }

// earliest is the first of some instants that came, or forever.
func earliest(instants ...time.Duration) time.Duration {
	first := forever
	for _, at := range instants {
		if at != 0 {
			first = min(first, at)
		}
	}
	return first
}
