package verdict

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/integration/history"
)

// A push is one attempt to put a job in.
type push struct {
	invoked time.Duration
	// answered is when the pusher heard of it; forever when it never did.
	answered time.Duration
	answer   history.Kind
	jid      string
	proc     string
	queue    string
	spec     *history.Spec
}

// A token is one job as the histories know it.
type token struct {
	name   string
	pushes []*push
	runs   []*run // by their starts
	left   []remnant
}

// A remnant is where a token lay at the end.
type remnant struct {
	place string
	held  payload
}

// A run is one start of a handler, and its end if it came.
type run struct {
	token       *token
	proc        *process
	name        string
	start       time.Duration
	finish      time.Duration // 0: it never came back
	outcome     string
	failures    int
	interrupted int
	// cancelled is when the run's context was ended by Belay itself, 0 if never; why is the cause.
	cancelled time.Duration
	why       string

	// next is what came of it, once that is known, and cause is why this run itself was started.
	next  *run
	cause Cause
	// after is the run that this one follows, or nil.
	after *run
}

// accepted says whether the job must be in Redis: somebody was told so, or it has run.
func (t *token) accepted() bool {
	return len(t.runs) > 0 || slices.ContainsFunc(t.pushes, func(p *push) bool { return p.answer == history.Accepted })
}

// spec is what the job was told to do.
func (t *token) spec() history.Spec {
	for _, p := range t.pushes {
		if p.spec != nil {
			return *p.spec
		}
	}
	return history.Spec{Retries: -1}
}

// since is when the token is first heard of.
func (t *token) since() time.Duration {
	since := forever
	if len(t.pushes) > 0 {
		since = t.pushes[0].invoked
	}
	if len(t.runs) > 0 {
		since = min(since, t.runs[0].start)
	}
	return since
}

// maxRetries is how many retries the job has.
func (w *world) maxRetries(t *token) int {
	if spec := t.spec(); spec.Retries >= 0 {
		return spec.Retries
	}
	return w.facts.MaxRetries
}

// cancelledByBelay says whether the cause of a cancelled run is none of the job's own: its timeout is a failure.
func cancelledByBelay(cause string) bool {
	return strings.Contains(cause, "shutdown") || strings.Contains(cause, "ownership lost")
}

// failed says whether the run ended as a failure of its job. What a handler says after Belay has cancelled it counts as
// nothing, unless it is done.
func (r *run) failed() bool {
	switch r.outcome {
	case history.Failed, history.Panics, history.Exits, history.Later, history.Stopped:
		return r.finish != 0 && r.cancelled == 0
	}
	return false
}

// ended says whether the run ended with an outcome after which the job does not run again.
func (r *run) ended(outcomes ...string) bool {
	return r.finish != 0 && slices.Contains(outcomes, r.outcome) && (r.cancelled == 0 || r.outcome == history.OK)
}

// span is the time in which the handler ran.
func (r *run) span() span {
	switch {
	case r.finish != 0:
		return span{r.start, r.finish}
	case r.proc.gone != 0:
		return span{r.start, max(r.proc.gone, r.start)}
	case r.proc.killed != 0:
		return span{r.start, max(r.proc.killed+fringe, r.start)}
	}
	return span{r.start, forever}
}

func (w *world) token(name string) *token {
	if w.tokens[name] == nil {
		w.tokens[name] = &token{name: name}
		w.order = append(w.order, w.tokens[name])
	}
	return w.tokens[name]
}

// readTokens gathers what was pushed and what ran.
func (w *world) readTokens() {
	runs := make(map[string]*run)
	for _, e := range w.events {
		switch e.Kind {
		case history.Invoke:
			t := w.token(e.Token)
			t.pushes = append(t.pushes, &push{invoked: e.At, answered: forever, jid: e.JID, proc: e.Proc, queue: e.Queue, spec: e.Spec})
		case history.Accepted, history.Refused, history.Unknown:
			w.answer(e)
		case history.Start:
			r := &run{token: w.token(e.Token), proc: w.process(e.Proc), name: e.Run, start: e.At, failures: e.Failures, interrupted: e.Interrupted}
			r.token.runs = append(r.token.runs, r)
			r.proc.runs = append(r.proc.runs, r)
			if runs[e.Run] != nil {
				w.violate(CannotJudge, e.Token, e.At, "two runs are called %q", e.Run)
			}
			runs[e.Run] = r
			w.requireKnown(r.token, e)
		case history.Cancelled:
			if r := runs[e.Run]; r == nil {
				w.violate(CannotJudge, e.Token, e.At, "run %q was cancelled, and never started", e.Run)
			} else if r.cancelled == 0 && r.finish == 0 && cancelledByBelay(e.Text) {
				r.cancelled, r.why = e.At, e.Text
			}
		case history.Finish:
			if r := runs[e.Run]; r == nil || r.finish != 0 {
				w.violate(CannotJudge, e.Token, e.At, "run %q finished, and had not started or had finished before", e.Run)
			} else {
				r.finish, r.outcome = e.At, e.Outcome
			}
		}
	}
	for _, lies := range w.facts.Left {
		held, name := lies.read()
		if name == "" {
			w.unreadable = append(w.unreadable, lies)
			continue
		}
		t := w.token(name)
		t.left = append(t.left, remnant{lies.Place, held})
	}
}

// answer gives a push its answer: the oldest by the same process that has none.
func (w *world) answer(e history.Event) {
	for _, p := range w.token(e.Token).pushes {
		if p.answered == forever && p.proc == e.Proc {
			p.answered, p.answer = e.At, e.Kind
			return
		}
	}
	w.violate(CannotJudge, e.Token, e.At, "a push was %s, and was not invoked", e.Kind)
}

// requireKnown holds that what starts is what was pushed.
func (w *world) requireKnown(t *token, e history.Event) {
	matches := slices.DeleteFunc(slices.Clone(t.pushes), func(p *push) bool { return p.jid != e.JID })
	switch {
	case len(t.pushes) == 0:
		w.violate(Phantom, t.name, e.At, "it started, and nobody had pushed it")
		return
	case len(matches) == 0:
		w.violate(Phantom, t.name, e.At, "it started as jid %s, and was pushed as %s", e.JID, t.pushes[0].jid)
		return
	case !slices.ContainsFunc(matches, func(p *push) bool { return p.answer != history.Refused }):
		w.violate(Phantom, t.name, e.At, "it started, and every push of it had been refused")
	case matches[0].queue != "" && e.Queue != "" && matches[0].queue != e.Queue:
		w.violate(Phantom, t.name, e.At, "it started from queue %s, and was pushed to %s", e.Queue, matches[0].queue)
	}
	if p := matches[0]; e.Spec == nil || p.spec == nil || !sameSpec(*p.spec, *e.Spec) {
		w.violate(Phantom, t.name, e.At, "its arguments are not those that were pushed: %s became %s", spell(p.spec), spell(e.Spec))
	}
}

// sameSpec compares to the byte, but for white space: a number that was rewritten is another.
func sameSpec(a, b history.Spec) bool { return bytes.Equal(spell(&a), spell(&b)) }

func spell(spec *history.Spec) []byte {
	text, err := json.Marshal(spec)
	if err != nil {
		return []byte(err.Error()) // a ballast that is no JSON: another one is another error, or the same
	}
	return text
}
