package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/inspect"
)

// stepTime is how long one request of an act on many jobs works: long enough that the overhead of a request is
// small, and short enough to show progress and to be stopped.
const stepTime = time.Second

// An actForm is what the form of an act says.
type actForm struct {
	act    Act
	task   inspect.Task
	cursor string            // where the next step begins
	before inspect.ActCounts // what earlier steps did; only for showing it
	of     int               // how many jobs there were at its beginning
}

func (d *Dashboard) readActForm(form url.Values) (actForm, error) {
	f := actForm{cursor: form.Get("cursor"), of: count(form, "of"), act: actIn(form.Get("in"), form.Get("queue"))}
	f.act.Name, f.act.To, f.act.All, f.act.IDs = form.Get("do"), form.Get("to"), form.Get("all") != "", slices.Concat(form["id"], form["ref"])
	f.act.Class, f.act.ErrorClass, f.act.Tag, f.act.Text = form.Get("class"), form.Get("error"), form.Get("tag"), form.Get("text")
	f.before.Moved, f.before.Gone, f.before.Refused = count(form, "moved"), count(form, "gone"), count(form, "refused")
	home, err := homeOf(f.act.In, homeName(f.act))
	if err != nil {
		return f, err
	}
	f.task = inspect.Task{Home: home, Action: inspect.Action(f.act.Name), To: f.act.To}
	if !f.task.Action.PossibleIn(home.Place()) {
		return f, fail(http.StatusBadRequest, "There is no such act on these jobs.")
	}
	filter := f.act.filter()
	switch {
	case f.act.All && filter != (inspect.Filter{}):
		f.task.Selection.Filter = filter
	case f.act.All:
		f.task.Selection.All = true
	default:
		f.task.Selection = inspect.Selection{IDs: form["id"], Refs: form["ref"]}
		if f.act.Class, f.act.ErrorClass, f.act.Tag, f.act.Text = "", "", "", ""; !f.act.inList() {
			f.act.Queue = ""
		}
	}
	if f.act.All {
		f.act.IDs = nil
	}
	if at, err := strconv.ParseInt(form.Get("at"), 10, 64); err == nil {
		f.act.At = time.UnixMilli(at)
	}
	return f, nil
}

// count reads a number that is only shown.
func count(form url.Values, name string) int {
	n, _ := strconv.Atoi(form.Get(name))
	return min(max(n, 0), 1<<40)
}

// pageOf returns the address of the page on which the jobs are listed.
func pageOf(act Act) string {
	page, query := act.In, url.Values{}
	switch {
	case act.inQueue():
		page = "queue"
		if act.Queue != "" {
			query.Set("name", act.Queue)
		}
	case act.inList():
		page = "limit"
		if act.Gate != "" {
			query = ofGate(act.Gate)
		}
	}
	filter := act.filter()
	for name, value := range map[string]string{
		"class": filter.Class, "error": filter.ErrorClass, "tag": filter.Tag, "queue": filter.Queue, "text": filter.Text,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if len(query) == 0 {
		return page
	}
	return page + "?" + query.Encode()
}

// maxFilter bounds a name that a page offers for a filter, as its fields do.
const maxFilter = 255

// searchOf returns the address of the page that lists the jobs of a group; empty if no filter chooses them, as
// with quarantined jobs.
func searchOf(in, name string, group inspect.Group) string {
	if in == string(inspect.PlaceQuarantined) || group.Class == "" || len(group.Class) > maxFilter || len(group.ErrorClass) > maxFilter {
		return ""
	}
	act := actIn(in, name)
	act.Class, act.ErrorClass = group.Class, group.ErrorClass
	return pageOf(act)
}

// whereOf names the jobs' place for a sentence.
func whereOf(act Act) string {
	switch act.In {
	case "dead", "scheduled":
		return "the " + act.In + " set"
	case "quarantined":
		return "the quarantine of queue " + act.Queue
	case "queue":
		return "queue " + act.Queue
	case "waiting":
		return "gate " + act.Gate
	}
	return "the " + act.In
}

func navOf(act Act) string {
	if act.inQueue() {
		return "queues"
	}
	if act.inList() {
		return "limits"
	}
	return act.In
}

// confirmBody asks before an act on all jobs of a set, or all that match a filter.
type confirmBody struct {
	Act    Act
	Action inspect.Action
	Set    bool // the jobs lie in a set, where a queue is a filter
	Count  int
	More   *continuation // continues the count
	// Groups are of the jobs that this page counted. Part is set if there are more.
	Groups inspect.Groups
	Part   bool
	Note   string
	To     []string
	Delays []delay
}

// maxOffered bounds the names of queues that a page offers.
const maxOffered = 200

// A delay is one of the times from now that a page offers.
type delay struct {
	Seconds int
	Text    string
}

var delays = []delay{{60, "a minute"}, {600, "10 minutes"}, {3600, "an hour"}, {6 * 3600, "6 hours"}, {24 * 3600, "a day"}, {7 * 24 * 3600, "a week"}}

// noteOf returns what an act does beyond what its name says.
func noteOf(task inspect.Task) string {
	if effect := effectOf(task.Action); effect != "" {
		return effect
	}
	switch task.Home.Place() { // of a move
	case inspect.PlaceQueue:
		return "They go to the back of the other queue, in their order."
	case inspect.PlaceWaiting:
		return "They go to the back of that queue, and line up for their limit anew."
	case inspect.PlaceQuarantined:
		return "They go to the quarantine of the other queue, in their order, and still run alone."
	}
	return "They stay where they are, and go to the other queue when they run."
}

func (d *Dashboard) confirm(v *visit) error {
	if !d.mayAct(v) {
		return fail(http.StatusForbidden, "This dashboard is read-only for you.")
	}
	v.form.Set("all", "1")
	f, err := d.readActForm(v.form)
	if err != nil {
		return err
	}
	body := confirmBody{Act: f.act, Action: f.task.Action, Set: !f.act.inList(), Note: noteOf(f.task), Delays: delays}
	if err := d.countJobs(v, f, &body); err != nil {
		return err
	}
	if f.task.Action == inspect.Move {
		names, err := d.inspector.QueueNames(v.ctx)
		if err != nil {
			return err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == f.act.Queue })
		body.To = names[:min(len(names), maxOffered)]
	}
	return d.show(v, "confirm", page{Title: verbOf(f.task.Action) + " jobs", Nav: navOf(f.act), Body: body})
}

// countJobs counts the jobs that a form chooses, and groups them. A filter needs a search, which may take
// several pages.
func (d *Dashboard) countJobs(v *visit, f actForm, body *confirmBody) (err error) {
	query := inspect.Query{Filter: f.task.Selection.Filter, Places: []inspect.Place{f.task.Home.Place()}, Cursor: v.form.Get("after")}
	query.Queue, query.Gate = f.act.Queue, f.act.Gate
	body.Part = query.Cursor != ""
	if f.task.Selection.All {
		if body.Count, err = d.inspector.Size(v.ctx, f.task.Home); err != nil {
			return err
		}
		query.Time = d.searchTime
		body.Groups, err = d.inspector.Groups(v.ctx, query)
		body.Part = body.Groups.Next != ""
		return err
	}
	body.Count = count(v.form, "counted")
	for until := time.Now().Add(d.searchTimeOf(v)); ; {
		query.Time = max(time.Until(until), time.Nanosecond)
		groups, err := d.inspector.Groups(v.ctx, query)
		if err != nil {
			return err
		}
		body.Count += groups.Jobs
		body.Groups.Add(groups)
		if query.Cursor = groups.Next; query.Cursor == "" {
			return nil
		}
		if !time.Now().Before(until) {
			body.Part, body.More = true, v.continuation("confirm", query.Cursor, 0)
			body.More.Fields["counted"] = strconv.Itoa(body.Count)
			return nil
		}
	}
}

// progressBody is the page after a step of a long act: its progress, and a form for the next step.
type progressBody struct {
	Act     Act
	Action  inspect.Action
	At      int64
	Cursor  string
	Counts  inspect.ActCounts
	Of      int
	Percent int
}

// act does one step of an act on jobs. What a step has done stays done if the next one fails: the form in its
// answer, or the same button pressed later, continues with the jobs that are left.
func (d *Dashboard) act(v *visit) error {
	f, err := d.readActForm(v.form)
	if err != nil {
		return err
	}
	if !f.act.All && len(f.act.IDs) == 0 {
		d.flash(v, flash{Text: "No job was selected.", Bad: true})
		v.redirect(pageOf(f.act))
		return nil
	}
	if f.task.Action == inspect.Reschedule { // before permit, which may decide by the time
		if err := d.readTime(v, &f); err != nil {
			return err
		}
	}
	if err := d.permit(v, f.act); err != nil {
		return err
	}
	if err := f.task.Check(); err != nil {
		return fail(http.StatusBadRequest, "The form asks for something impossible: %s.", plain(cut(300, err.Error())))
	}
	did, next, err := d.step(v.ctx, f)
	d.audit(v, f.act, err, "moved", did.Moved, "gone", did.Gone, "refused", did.Refused, "complete", err == nil && next == "")
	counts := f.before
	counts.Add(did)
	if err != nil {
		return fmt.Errorf("%s: %s so far, and the rest is where it was: %w", verbOf(f.task.Action), plural(counts.Moved, "job", "jobs"), err)
	}
	worked := counts.Moved + counts.Gone + counts.Refused
	if next == "" {
		answer := describe(f.task.Action, counts)
		if f.task.Later && worked < f.of {
			answer.Text += " The others are due later."
		}
		d.flash(v, answer)
		v.redirect(pageOf(f.act))
		return nil
	}
	if f.of == 0 && f.task.Selection.All {
		left, err := d.inspector.Size(v.ctx, f.task.Home)
		if err != nil {
			return err
		}
		f.of = worked + left
	}
	body := progressBody{Act: f.act, Action: f.task.Action, Cursor: next, Counts: counts, Of: max(f.of, worked)}
	if !f.act.At.IsZero() {
		body.At = f.act.At.UnixMilli()
	}
	body.Percent = percent(worked, body.Of)
	return d.show(v, "progress", page{Title: verbOf(f.task.Action) + " jobs", Nav: navOf(f.act), Body: body})
}

// readTime sets when rescheduled jobs run: a delay after the time of a single job that has a time to come,
// after now for others, or what the first step decided.
func (d *Dashboard) readTime(v *visit, f *actForm) error {
	f.task.Later = true
	if seconds, err := strconv.Atoi(v.form.Get("delay")); err == nil && seconds > 0 && seconds <= 366*24*3600 {
		now, err := d.inspector.Now(v.ctx)
		if err != nil {
			return err
		}
		if refs := f.task.Selection.Refs; len(refs) == 1 {
			entry, _, err := d.inspector.Get(v.ctx, f.task.Home, refs[0])
			if err != nil {
				return err
			}
			now = slices.MaxFunc([]time.Time{now, entry.At}, time.Time.Compare)
		}
		f.act.At = now.Add(time.Duration(seconds) * time.Second)
	}
	if f.task.At = f.act.At; f.task.At.IsZero() {
		return fail(http.StatusBadRequest, "The form names no time.")
	}
	return nil
}

// step works for stepTime, or until the act is complete. next is where to continue.
func (d *Dashboard) step(ctx context.Context, f actForm) (sum inspect.ActCounts, next string, err error) {
	until := time.Now().Add(d.stepTime)
	for cursor := f.cursor; ; {
		did, err := d.inspector.Step(ctx, f.task, cursor)
		sum.Add(did.ActCounts)
		if err != nil || did.Next == "" {
			return sum, "", err
		}
		cursor = did.Next
		if time.Now().After(until) {
			return sum, cursor, nil
		}
	}
}
