package inspect

import (
	"encoding/json"
	"strings"

	batches "github.com/belayq/belay/batch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A NextJob is a job that the payload of another one carries: it is enqueued when the job that it follows is
// done, which is that one or another one of its next jobs.
type NextJob struct {
	JID   string `json:"jid"`
	Class string `json:"class"`
	Queue string `json:"queue"`
	// After is the jid of the job that it follows.
	After string `json:"after"`
}

// NextNames returns the classes of next jobs, in their order.
func NextNames(jobs []NextJob) string {
	names := make([]string, len(jobs))
	for at, next := range jobs {
		names[at] = next.Class
	}
	return strings.Join(names, ", ")
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

// nextJobs returns the next jobs that can be read, each before those that follow it.
func (e Entry) nextJobs() (jobs []NextJob) {
	for _, next := range e.next {
		if next.parsed != nil {
			jobs = append(jobs, NextJob{next.ID, next.Class, next.parsed.QueueOrDefault(), e.ID})
			jobs = append(jobs, next.nextJobs()...)
		}
	}
	return jobs
}
