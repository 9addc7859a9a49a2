package inspect

import (
	"encoding/json"
	"strings"

	batches "github.com/belayq/belay/batch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A NextJob is a job that is enqueued when the job of an Entry is done, and Next are those that follow it.
type NextJob struct {
	JID   string    `json:"jid"`
	Class string    `json:"class"`
	Queue string    `json:"queue"`
	Next  []NextJob `json:"next,omitempty"`
}

// String names the job and those that follow it, such as "Load, then Report and Audit".
func (n NextJob) String() string {
	if len(n.Next) == 0 {
		return n.Class
	}
	return n.Class + ", then " + NextNames(n.Next)
}

// NextNames names next jobs: the class of each, and those that follow it.
func NextNames(jobs []NextJob) string {
	names := make([]string, len(jobs))
	for at, next := range jobs {
		if names[at] = next.String(); len(jobs) > 1 && len(next.Next) > 0 {
			names[at] = "(" + names[at] + ")"
		}
	}
	return strings.Join(names, " and ")
}

// parseNext reads the next jobs of an entry. What it does not read is not shown if there is a mask: it may have
// any arguments.
func (i *Inspector) parseNext(e *Entry) {
	if e.parsed == nil {
		return
	}
	texts := e.parsed.Then()
	if _, has := e.parsed.RareField(job.FieldThen); has && (texts == nil || e.level == batches.MaxSequence) {
		e.hidden = e.hidden || i.mask != nil
		return
	}
	for _, text := range texts {
		next := Entry{home: e.home, raw: lua.Entry{Bytes: text}, level: e.level + 1}
		i.parse(&next)
		e.next = append(e.next, next)
	}
}

// then returns the field of the next jobs as it may be shown.
func (e Entry) then() (text json.RawMessage, ok bool) {
	if len(e.next) == 0 {
		return json.RawMessage(masked), false
	}
	texts := make([]string, len(e.next))
	for at, next := range e.next {
		switch {
		case next.parsed != nil:
			texts[at] = string(next.payload())
		case next.hidden:
			texts[at] = masked
		default:
			texts[at] = next.raw.Bytes
		}
	}
	return json.RawMessage("[" + strings.Join(texts, ",") + "]"), true
}

// nextJobs returns the next jobs that can be read.
func (e Entry) nextJobs() (jobs []NextJob) {
	for _, next := range e.next {
		if next.parsed != nil {
			jobs = append(jobs, NextJob{next.ID, next.Class, next.parsed.QueueOrDefault(), next.nextJobs()})
		}
	}
	return jobs
}
