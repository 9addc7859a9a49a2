package web

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"time"

	"github.com/belayq/belay/inspect"
)

// jobBody is what the page of one job shows.
type jobBody struct {
	JID       string
	Found     inspect.Found
	Home      string // where it waits, as a form names it; empty if it cannot be acted on
	Queue     string // the queue or the gate of its home; empty in a set
	GatePage  string // the address of the page of its gate; empty without one
	Ref       string
	Acts      []inspect.Action
	Args      string
	ArgsBytes int // of the args, if they are cut
	Masked    bool
	Details   *inspect.Details
	Payload   string
	// PayloadBytes is the length of the payload, if it is cut.
	PayloadBytes int
	Result       string
	Share        int // of the progress, in percent; -1 if it is not known
	Stack        []string
	Timeline     []event
	Delays       []delay
	Gone         bool
	Left         string // the place that it has left since the page was shown
	Looked       int
	Next         *continuation
	Unseen       []string
}

// An event is one line of a job's timeline.
type event struct {
	Name string
	At   time.Time
	Note string
	Kind string // for its colour: past, bad, next, now
}

const (
	// maxArgs bounds the args of a job's page, and maxStack the lines of its stack.
	maxArgs  = 64 << 10
	maxStack = 200
)

// job shows one job. A link from a list says where it was; without that, or if it has left, all places are
// searched.
func (d *Dashboard) job(v *visit) error {
	jid := v.form.Get("jid")
	if jid == "" {
		v.redirect("./")
		return nil
	}
	body := jobBody{JID: jid, Delays: delays}
	found, err := d.getJob(v)
	refresh := v.r.Header.Get("X-Belay-Refresh") != ""
	held := v.form.Get("process")
	switch {
	case err == nil && found == nil && refresh: // a search for each refresh would keep Redis busy
		if body.Left = whereOf(actIn(v.form.Get("in"), v.form.Get("queue"))); held != "" {
			body.Left = "process " + held
		}
	case err == nil && found == nil:
		found, err = d.findJob(v, &body)
	}
	if err != nil {
		return err
	}
	if found == nil && !v.form.Has("after") && !refresh { // a search goes on: the first page is enough for a batch
		if _, is, err := d.inspector.Batch(v.ctx, jid); err == nil && is { // a user who may not read it sees what was searched
			v.redirect("batch?" + url.Values{"bid": {jid}}.Encode())
			return nil
		}
	}
	p := page{Title: "Job", Search: jid}
	if found == nil {
		body.Gone = true
	} else {
		body.Found = *found
		body.Found.Gate, _ = d.inspector.GateOf(v.ctx, *found) // a user who may not read it still sees the job
		body.Found.Held, _ = d.inspector.HeldBy(v.ctx, *found)
		describeJob(&body)
	}
	var self url.Values
	switch {
	case body.Ref != "":
		self = url.Values{"jid": {jid}, "in": {body.Home}, "queue": {body.Queue}, "ref": {body.Ref}}
	case body.Found.Place == inspect.PlaceRunning:
		self = url.Values{"jid": {jid}, "process": {body.Found.Process}, "queue": {body.Found.Queue}}
	}
	if self != nil {
		p.Live, p.Self = 4, "job?"+self.Encode()
	}
	p.Nav, p.Body = navOf(actIn(body.Home, body.Queue)), body
	return d.show(v, "job", p)
}

// getJob reads a job from where a link says that it is; nil if it is not there.
func (d *Dashboard) getJob(v *visit) (*inspect.Found, error) {
	if v.form.Get("process") != "" {
		return d.getRunning(v)
	}
	in, ref := v.form.Get("in"), v.form.Get("ref")
	home, err := homeOf(in, v.form.Get("queue"))
	if ref == "" || err != nil {
		return nil, nil //nolint:nilerr // a search finds it too
	}
	entry, ok, err := d.inspector.Get(v.ctx, home, ref)
	if err != nil || !ok || entry.ID != v.form.Get("jid") { // acts on the page would be on another job than it names
		return nil, err
	}
	found := entry.Found()
	return &found, nil
}

// getRunning reads a job that a process held; if the job has ended since then, what is kept of it.
func (d *Dashboard) getRunning(v *visit) (*inspect.Found, error) {
	jid := v.form.Get("jid")
	found, held, err := d.inspector.Held(v.ctx, v.form.Get("process"), v.form.Get("queue"), jid)
	if err != nil {
		return nil, err
	}
	if held {
		return &found, nil
	}
	ended, err := d.inspector.Search(v.ctx, inspect.Query{IDs: []string{jid}, Places: []inspect.Place{inspect.PlaceCompleted}, Limit: 1})
	if err != nil || len(ended.Found) == 0 {
		return nil, err
	}
	return &ended.Found[0], nil
}

// findJob searches all places for a time.
func (d *Dashboard) findJob(v *visit, body *jobBody) (*inspect.Found, error) {
	results, err := d.inspector.Search(v.ctx, inspect.Query{IDs: []string{body.JID}, Limit: 1, Time: d.searchTimeOf(v), Cursor: v.form.Get("after")})
	if err != nil {
		return nil, err
	}
	body.Looked, body.Unseen = results.Looked+count(v.form, "looked"), results.Unseen
	if len(results.Found) > 0 {
		return &results.Found[0], nil
	}
	body.Next = v.continuation("job", results.Next, body.Looked)
	return nil, nil
}

// describeJob fills in what the page shows of a job that was found.
func describeJob(b *jobBody) {
	if e := b.Found.Entry; e != nil {
		if b.Acts = inspect.ActionsIn(b.Found.Place); b.Acts != nil {
			b.Home, b.Queue, b.Ref = e.In, e.Home().Name(), e.Ref()
		}
		b.Masked = e.Masked()
		text := indented(e.Args)
		if len(text) > maxArgs {
			b.ArgsBytes = len(text)
		}
		b.Args = cut(maxArgs, text)
		b.Stack = e.Backtrace()
		b.Stack = b.Stack[:min(len(b.Stack), maxStack)]
		if e.Describe(); e.Details != nil {
			b.Details = e.Details
			text := indented(b.Details.Payload)
			// Most of a large payload is the args, which the page has already.
			if b.Payload = cut(maxArgs-min(len(b.Args), maxArgs*3/4), text); len(b.Payload) < len(text) {
				b.PayloadBytes = len(text)
			}
		}
	}
	if b.Found.Gate != "" {
		b.GatePage = "limit?" + ofGate(b.Found.Gate).Encode()
	}
	b.Timeline, b.Share = timeline(b.Found), -1
	if t := b.Found.Tracked; t != nil {
		if t.Result != nil {
			b.Result = cut(maxArgs, indented(t.Result))
		}
		if t.Total > 0 && t.Done >= 0 && t.Done <= t.Total {
			b.Share = int(float64(t.Done) / float64(t.Total) * 100)
		}
	}
}

func indented(args json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, args, "", "  ") != nil {
		return string(args)
	}
	return out.String()
}

// clocksApart bounds how far the clocks of an enqueue and of a failure may be apart: a worker estimates Redis'
// clock to a few milliseconds. No job fails, waits for its retry and is enqueued again within it.
const clocksApart = 20 * time.Millisecond

// orderOf returns the instant by which an event of a job is sorted. The run that failed last began after the
// job was enqueued, whatever the clocks say: in the set of retries always, and elsewhere unless the job was
// enqueued again.
func orderOf(f inspect.Found, e event) time.Time {
	if e.Name != eventEnqueued {
		return e.At
	}
	failedAt := f.Entry.FailedAt
	if f.Entry.RetriedAt.After(failedAt) {
		failedAt = f.Entry.RetriedAt
	}
	late := e.At.Sub(failedAt)
	if late > 0 && !failedAt.IsZero() && (f.Place == inspect.PlaceRetry || late < clocksApart) {
		return failedAt
	}
	return e.At
}

const eventEnqueued = "Enqueued"

// timeline returns the events that the payload records, in order of time, and last where the job is now: the
// time of that may be rounded to seconds.
func timeline(f inspect.Found) (list []event) {
	add := func(name string, at time.Time, kind, note string) {
		if !at.IsZero() {
			list = append(list, event{name, at, note, kind})
		}
	}
	if e := f.Entry; e != nil {
		add("Created", e.CreatedAt, "past", "")
		add(eventEnqueued, e.EnqueuedAt, "past", "") // before the failures, which it goes before if they are equal
		add("First failed", e.FailedAt, "bad", "")
		add("Failed again", e.RetriedAt, "bad", "")
	}
	if t := f.Tracked; t != nil && f.Place == inspect.PlaceCompleted {
		add("Last run began", t.BeganAt, "past", "")
	}
	slices.SortStableFunc(list, func(a, b event) int { return orderOf(f, a).Compare(orderOf(f, b)) })
	switch f.Place {
	case inspect.PlaceRunning:
		add("Running", f.Since, "now", f.Process)
	case inspect.PlaceCompleted:
		add("Ended", f.Since, "now", string(f.Tracked.State))
	case inspect.PlaceDead:
		add("Dead", f.Since, "bad", "")
	case inspect.PlaceQuarantined:
		add("Quarantined", f.Since, "now", "")
	case inspect.PlaceRetry:
		add("Runs again", f.At, "next", "")
	case inspect.PlaceScheduled:
		add("Due", f.At, "next", "")
	}
	return list
}
