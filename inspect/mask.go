package inspect

import (
	"encoding/json"
	"slices"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

// A Mask returns what may be shown of the args of a job, which are a JSON array: the args themselves, other
// JSON or any text. It is asked for the class that is shown, for the class in the payload, and for the class
// that the job wraps, until it returns something else than the args. It is also asked for the result of a
// tracked job, as the only element of an array. It is called concurrently, and must not change args.
type Mask func(class string, args json.RawMessage) string

const masked = `"[masked]"`

// MaskClasses returns a Mask that hides the arguments of jobs of these classes: they are ["[masked]"].
func MaskClasses(classes ...string) Mask {
	return func(class string, args json.RawMessage) string {
		if slices.Contains(classes, class) {
			return "[" + masked + "]"
		}
		return string(args)
	}
}

// WithMask returns an Inspector that shows of the arguments of jobs and periodic jobs, and of results, what the
// mask returns; nil shows all. Of a job whose arguments it hides, it also hides each field of the payload that
// may repeat them, and no search by text looks into them. An unreadable entry may have any arguments, so none
// of its bytes are shown or searched. Errors, tags and progress are shown as they are.
//
// Arguments that are encrypted are hidden without any mask: see Entry.Args.
func (i *Inspector) WithMask(mask Mask) *Inspector {
	other := *i
	other.mask = mask
	return &other
}

// of returns what is shown of args, and whether that is something else.
func (m Mask) of(args json.RawMessage, classes ...string) (shown json.RawMessage, hides bool) {
	if m == nil || args == nil {
		return args, false
	}
	for n, class := range classes {
		if class == "" || slices.Contains(classes[:n], class) {
			continue
		}
		if text := m(class, slices.Clone(args)); text != string(args) {
			if json.Valid([]byte(text)) {
				return json.RawMessage(text), true
			}
			list, _ := json.Marshal([]string{text}) // it cannot fail
			return list, true
		}
	}
	return args, false
}

// parse fills in what the bytes of an entry tell and the mask permits.
func (i *Inspector) parse(e *Entry) {
	e.parse()
	i.parseNext(e)
	if i.mask == nil {
		return
	}
	if e.parsed == nil || e.parsed.Class() == job.UnreadableClass { // its bytes, or those that it keeps, may be anything
		e.hidden, e.Payload = true, ""
	}
	if e.parsed != nil {
		var hides bool
		e.Args, hides = i.mask.of(e.Args, e.Class, e.parsed.Class(), e.parsed.Wrapped())
		e.hidden = e.hidden || hides
	}
	i.result(Found{Class: e.Class, Tracked: e.Tracked, Entry: e})
}

// maskPeriodic hides the arguments of a periodic job.
func (i *Inspector) maskPeriodic(entry *periodicEntry) {
	if i.mask == nil || entry.definition == nil {
		return
	}
	classes := []string{entry.Class}
	if parsed, err := job.Parse(entry.definition.Job); err == nil {
		classes = append(classes, parsed.DisplayClass(), parsed.Wrapped())
	}
	entry.Args, entry.Masked = i.mask.of(entry.Args, classes...)
}

// entry returns the entry with these bytes.
func (i *Inspector) entry(e Entry) Entry {
	i.parse(&e)
	return e
}

// result hides the result of a tracked job. Without its class no mask can permit it.
func (i *Inspector) result(f Found) {
	if i.mask == nil || f.Tracked == nil || f.Tracked.Result == nil {
		return
	}
	shown, hides := json.RawMessage(masked), true
	if f.Class != "" {
		classes := []string{f.Class}
		if f.Entry != nil && f.Entry.parsed != nil {
			classes = append(classes, f.Entry.parsed.Class(), f.Entry.parsed.Wrapped())
		}
		shown, hides = i.mask.of(slices.Concat(json.RawMessage("["), f.Tracked.Result, json.RawMessage("]")), classes...)
		if list, err := job.SplitArgs(string(shown)); err == nil && len(list) == 1 {
			shown = json.RawMessage(list[0])
		}
	}
	if hides {
		f.Tracked.Result = shown
	}
}

// openFields are the fields of a payload that never repeat the arguments, as far as Belay and Sidekiq write
// them.
var openFields = []string{
	"class", "jid", "queue", "retry", "retry_count", "retry_for", "retry_queue", "dead", "backtrace", "created_at", "enqueued_at",
	"failed_at", "retried_at", "at", "discarded_at", "interrupted_count", "interrupted_at", "error_class", "error_message",
	"error_backtrace", job.FieldErrors, "display_class", "wrapped", "tags", "bid", "encrypt", job.FieldExpiry, job.FieldExpiresIn,
	job.FieldDeadline, job.FieldTrack, job.FieldTimeout, job.FieldUnmarked, job.FieldWorkerRetries, job.FieldTick, job.FieldBatch,
	job.FieldBatchEnded, job.FieldAfter, dedup.FieldName, dedup.DuplicateOf,
}

// payload returns the whole job as it may be shown. Without the job's own order of fields, if its arguments are
// hidden: an earlier field of the same name must not be shown either.
func (e Entry) payload() json.RawMessage {
	if !e.hidden {
		var edits []job.Edit
		if shown := string(e.Args); shown != e.parsed.ArgsJSON() { // encrypted
			edits = append(edits, job.Edit{Name: "args", JSON: shown})
		}
		if then, ok := e.then(); ok {
			edits = append(edits, job.Edit{Name: job.FieldThen, JSON: string(then)})
		}
		if len(edits) == 0 {
			return json.RawMessage(e.parsed.Raw())
		}
		return json.RawMessage(e.parsed.Patch(edits...))
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal([]byte(e.parsed.Raw()), &fields) // it was parsed before
	for name := range fields {
		switch {
		case name == "args":
			fields[name] = e.Args
		case name == job.FieldThen:
			fields[name], _ = e.then()
		case !slices.Contains(openFields, name):
			fields[name] = json.RawMessage(masked)
		}
	}
	text, _ := json.Marshal(fields) // it cannot fail: all of it is JSON
	return text
}

// Masked reports whether arguments of the job are hidden by a Mask.
func (e Entry) Masked() bool { return e.hidden }
