package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/inspect"
)

// setBody is a page of waiting jobs.
type setBody struct {
	In, Queue string         // Queue is that of the form: the name of a gate, if the jobs wait there
	Filter    inspect.Filter // in a set also by queue
	Filtered  bool
	Filters   bool // the page offers a filter
	Total     int
	Rows      []row
	Acts      []inspect.Action
	Back      string // the page without a filter
	// Groups are of the jobs that come first, on a page that a user opens and not in its refreshes; Part is set
	// if there are more. Offers are what the fields of the filter offer.
	Groups inspect.Groups
	Part   bool
	Offers offers

	// Of a page without a filter.
	Page, Pages int // from 1
	First, Last int // the positions of the rows, from 1
	Self        string

	// Of a page with a filter, and of completed jobs: how many entries were read, and how the search continues.
	Looked int
	Next   *continuation
}

// offers are values of filters that match jobs.
type offers struct{ Classes, ErrorClasses []string }

// A row is one job of a set.
type row struct {
	inspect.Entry
	Args string // cut
	// Of a completed job: its result, cut, and how long its last run took.
	Result, Took string
}

const (
	defaultRows = 25
	// maxRows bounds the rows of a page. With args and errors cut, such a page has half a megabyte.
	maxRows    = 100
	maxRowArgs = 200 // characters
	// searchTime bounds the search of one page, so that a page takes less than a tenth of a second; its script
	// asks for the next page. patientTime is used without JavaScript, where each page costs a click, and for
	// the shard of a job, which is looked for once.
	searchTime, patientTime = 70 * time.Millisecond, 2 * time.Second
)

func (d *Dashboard) searchTimeOf(v *visit) time.Duration {
	if v.form.Get("patient") != "" {
		return d.patientTime
	}
	return d.searchTime
}

// A continuation is the form that continues a search.
type continuation struct {
	Action string
	Fields map[string]string
	Auto   bool // a script submits it
	Label  string
}

// continuation returns the form that continues the search of a page from a cursor; nil at the end.
func (v *visit) continuation(action, cursor string, looked int) *continuation {
	if cursor == "" {
		return nil
	}
	f := &continuation{Action: action, Auto: true, Label: "Search on", Fields: map[string]string{"after": cursor, "looked": strconv.Itoa(looked)}}
	for name, values := range v.form {
		if f.Fields[name] == "" && name != "patient" {
			f.Fields[name] = values[0]
		}
	}
	return f
}

// setPage returns the handler of the page of a set.
func setPage(in, title string) func(*Dashboard, *visit) error {
	return func(d *Dashboard, v *visit) error {
		body, err := d.readSet(v, in, "")
		if err != nil {
			return err
		}
		return d.show(v, "set", page{Title: title, Nav: in, Live: liveOf(body), Body: body})
	}
}

// WholeNames reports whether the filter has a field that must be the whole name.
func (b setBody) WholeNames() bool {
	return b.Filter.Class+b.Filter.ErrorClass+b.Filter.Tag+b.Filter.Queue != ""
}

// Elsewhere returns the page of the other set of failed jobs with the same filter; empty in all other places.
// Which of the two has the jobs that failed is not known before a search.
func (b setBody) Elsewhere() string {
	act := actIn(map[string]string{"retries": "dead", "dead": "retries"}[b.In], b.Filter.Queue)
	if act.In == "" {
		return ""
	}
	act.Class, act.ErrorClass, act.Tag, act.Text = b.Filter.Class, b.Filter.ErrorClass, b.Filter.Tag, b.Filter.Text
	return pageOf(act)
}

// liveOf returns the seconds between two refreshes of a page of jobs; 0 for a search, which is too costly.
func liveOf(b setBody) int {
	if b.Filtered {
		return 0
	}
	return 4
}

// bare reports whether the form of an act needs nothing but the jobs. Other forms also name a queue or a time.
func bare(action inspect.Action) bool { return action != inspect.Move && action != inspect.Reschedule }

// readSet reads the page of a set that the query names.
func (d *Dashboard) readSet(v *visit, in, queue string) (b setBody, err error) {
	home, err := homeOf(in, queue)
	if err != nil {
		return b, err
	}
	b = setBody{In: in, Queue: queue, Acts: inspect.ActionsIn(home.Place()), Filters: in != "quarantined"}
	if b.Filters {
		b.Filter = Act{
			In: in, Queue: v.form.Get("queue"), Class: v.form.Get("class"), ErrorClass: v.form.Get("error"), Tag: v.form.Get("tag"),
			Text: v.form.Get("text"),
		}.filter()
	}
	b.Filtered = b.Filter != inspect.Filter{}
	b.Back = pageOf(actIn(in, queue))
	rows := defaultRows
	if n, err := strconv.Atoi(v.form.Get("rows")); err == nil && slices.Contains([]int{25, 50, maxRows}, n) {
		rows = n
	}
	if b.Total, err = d.inspector.Size(v.ctx, home); err != nil {
		return b, err
	}
	// The state of a completed job may have expired, so only a search knows which jobs are on a page.
	if b.Filtered || home == inspect.Completed() {
		return b, d.search(v, &b, home, rows)
	}
	if err := d.readPage(v, &b, home, rows); err != nil {
		return b, err
	}
	if b.Filters && b.Page == 1 && len(b.Rows) > 0 && v.r.Header.Get("X-Belay-Refresh") == "" {
		err = d.readGroups(v, &b, home)
	}
	return b, err
}

// readGroups reads what is shown above the rows of a page without a filter. It takes half of the time of a
// search, because the page has read its rows already.
func (d *Dashboard) readGroups(v *visit, b *setBody, home inspect.Home) (err error) {
	query := inspect.Query{Places: []inspect.Place{home.Place()}, Time: max(d.searchTime/2, time.Nanosecond)}
	query.Queue, query.Gate = home.Queue(), home.Gate()
	b.Groups, err = d.inspector.Groups(v.ctx, query)
	b.Part = b.Groups.Next != ""
	offer := func(list *[]string, name string) {
		if name != "" && len(name) <= maxFilter && len(*list) < maxOffered && !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	for _, group := range b.Groups.Groups {
		offer(&b.Offers.Classes, group.Class)
		offer(&b.Offers.ErrorClasses, group.ErrorClass)
	}
	return err
}

// readPage reads the rows of a page without a filter.
func (d *Dashboard) readPage(v *visit, b *setBody, home inspect.Home, rows int) error {
	number := "page"
	if b.In == "quarantined" { // on the page of its queue
		number = "qpage"
	}
	b.Page, b.Pages = 1, max((b.Total+rows-1)/rows, 1)
	if n, err := strconv.Atoi(v.form.Get(number)); err == nil {
		b.Page = min(max(n, 1), b.Pages)
	}
	b.Self = b.Back + "?"
	if b.Queue != "" {
		b.Self = b.Back + "&"
	}
	if rows != defaultRows {
		b.Self += "rows=" + strconv.Itoa(rows) + "&"
	}
	b.Self += number + "=" // for a template to append the number
	for entry, err := range d.inspector.Entries(v.ctx, home, (b.Page-1)*rows) {
		if err != nil {
			return err
		}
		b.Rows = append(b.Rows, rowOf(entry))
		if len(b.Rows) == rows {
			break
		}
	}
	if len(b.Rows) > 0 {
		b.First = (b.Page-1)*rows + 1
		b.Last = b.First + len(b.Rows) - 1
		b.Total = max(b.Total, b.Last) // some came since the count
	}
	return nil
}

// search reads the rows of a page with a filter.
func (d *Dashboard) search(v *visit, b *setBody, home inspect.Home, rows int) error {
	filter := b.Filter
	filter.Queue = cmp.Or(home.Queue(), filter.Queue)
	results, err := d.inspector.Search(v.ctx, inspect.Query{
		Filter: filter, Places: []inspect.Place{home.Place()}, Limit: rows, Time: d.searchTimeOf(v), Cursor: v.form.Get("after"), Gate: home.Gate(),
	})
	if err != nil {
		return err
	}
	for _, found := range results.Found {
		if found.Entry != nil {
			found.Entry.Tracked = found.Tracked
			b.Rows = append(b.Rows, rowOf(*found.Entry))
		}
	}
	b.Looked = results.Looked + count(v.form, "looked")
	if b.Next = v.continuation(pageOf(Act{In: b.In}), results.Next, b.Looked); b.Next != nil {
		b.Next.Auto = len(b.Rows) == 0
		if !b.Filtered {
			b.Next.Label = "Older"
		}
	}
	return nil
}

func rowOf(e inspect.Entry) row {
	r := row{Entry: e, Args: cut(maxRowArgs, spaced(string(e.Args)))}
	if t := e.Tracked; t != nil {
		r.Result = cut(maxRowArgs, spaced("["+string(t.Result)+"]"))
		if !t.BeganAt.IsZero() {
			r.Took = span(max(t.EndedAt.Sub(t.BeganAt), 0))
		}
	}
	return r
}

// spaced returns args without the brackets around them, and with a space after each comma and colon, so that
// lines break between them. Long ones get no spaces: a row shows only their beginning.
func spaced(args string) string {
	if n := len(args); n >= 2 && args[0] == '[' && args[n-1] == ']' {
		args = args[1 : n-1]
	} else if strings.HasSuffix(args, "…") { // the beginning of them
		return strings.TrimPrefix(args, "[")
	}
	var out bytes.Buffer
	if len(args) > 10*maxRowArgs || json.Indent(&out, []byte("["+args+"]"), "", "") != nil {
		return args
	}
	// In JSON, newlines stand between values only.
	text := strings.NewReplacer("[\n", "[", "{\n", "{", "\n]", "]", "\n}", "}", "\n", " ").Replace(out.String())
	return text[1 : len(text)-1]
}
