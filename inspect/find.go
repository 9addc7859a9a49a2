package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Found describes where a job is. Unknown fields are empty.
type Found struct {
	JID   string `json:"jid"`
	Place Place  `json:"state"`
	// Queue is the queue in which the job waits, from which it was taken, or that its payload names.
	Queue string `json:"queue,omitempty"`
	Class string `json:"class,omitempty"`
	// Gate is the gate of a limit at which the job waits, and Line its place in the line: 1 is the next to
	// start. Find also sets Gate for a job that was admitted, or that runs and counts against a concurrency.
	Gate string `json:"gate,omitempty"`
	Line int    `json:"line,omitempty"`
	// Held is why no process would start the job, which waits: its class or its queue is paused, or no process
	// takes from the queue. Only Find sets it.
	Held Held `json:"held,omitempty"`
	// Since is when the job arrived there, according to the job or its process; of a job that waits at a gate,
	// when it was enqueued. At is when a scheduled job or a retry is due.
	Since time.Time `json:"since,omitzero"`
	At    time.Time `json:"at,omitzero"`
	// Process is the identity of the process that holds it, and State whether that process is alive. A living
	// process recovers the jobs of a lapsed one.
	Process string `json:"process,omitempty"`
	State   State  `json:"process_state,omitempty"`
	// Reported is true if that process reports that it runs the job. It is false for a moment after the job
	// was taken, and for an orphaned entry, whose reply from Redis was lost. The process finds and runs such
	// an entry when it reconciles its lists.
	Reported bool `json:"reported,omitempty"`
	// Tracked is the state of a tracked job that has begun; nil for any other. Only a search by ID
	// in all places reads it.
	Tracked *Tracked `json:"tracked,omitempty"`
	// Looked is the number of entries that Find read.
	Looked int `json:"looked"`
	// Unseen lists the places that Find could not search to their end; empty if the search was complete.
	Unseen string `json:"unseen,omitempty"`
	// Entry is the whole job; nil if it was not found or runs in a process of Sidekiq.
	Entry *Entry `json:"job,omitempty"`
}

// Find returns the place of the job with this jid or Entry.ID: see FindAll.
func (i *Inspector) Find(ctx context.Context, jid string, progress func(looked int, place string)) (Found, error) {
	found, err := i.FindAll(ctx, Query{IDs: []string{jid}}, progress)
	if err != nil {
		return Found{}, err
	}
	return found[0], nil
}

// FindAll returns the places of the jobs with the IDs of a query, in their order. It leaves out jobs that do
// not match the Filter, and reads the Places, or all of them, a page at a time, in the order in which jobs pass
// through them. It reads them twice before it reports PlaceNotFound: a job that moves against that order (a
// retry that comes due, a requeue) can leave a place just before FindAll reads it. It may read every job in
// Redis, which compares about 500,000 a second. After each page it calls progress, unless nil, with the number
// of entries read and the current place. Of several jobs with one ID it returns the first that it reads.
//
// When ctx reaches its deadline, FindAll returns PlaceNotFound with Unseen set for the rest, and no error.
// Limit, Time and Cursor of the query have no meaning here.
func (i *Inspector) FindAll(ctx context.Context, query Query, progress func(looked int, place string)) ([]Found, error) {
	query.Cursor = ""
	s := i.search(query)
	found := make(map[string]Found)
	s.visit = func(f Found) bool {
		if _, again := found[f.JID]; !again {
			found[f.JID] = f
		}
		return len(found) == len(s.ids)
	}
	s.pageEnd = func() bool {
		if progress != nil {
			progress(s.looked, s.place)
		}
		return false
	}
	late := false
	for pass := 0; pass < 2 && len(found) < len(s.ids) && !late; pass++ {
		s.at, s.unseen = searchPosition{}, nil
		_, err := s.run(ctx)
		late = errors.Is(ctx.Err(), context.DeadlineExceeded)
		switch {
		case len(found) == len(s.ids):
		case late:
			s.unseen = append(s.unseen, "it took too long: stopped in "+s.place)
		case err != nil:
			return nil, fmt.Errorf("look for %s in %s: %w", strings.Join(query.IDs[:min(len(query.IDs), maxProblems)], ", "), s.place, err)
		}
	}
	all := make([]Found, len(query.IDs))
	held := make(map[[3]string]Held) // by what decides it
	for n, id := range query.IDs {
		f, ok := found[id]
		if !ok {
			f = Found{JID: id, Place: PlaceNotFound, Unseen: strings.Join(s.unseen, "; ")}
		}
		f.Gate, _ = i.GateOf(ctx, f) // a user who may not read it still learns where the job is
		if of := [3]string{string(f.Place), f.Class, f.Queue}; ok {
			if _, known := held[of]; !known {
				held[of], _ = i.HeldBy(ctx, f)
			}
			f.Held = held[of]
		}
		f.Looked = s.looked
		all[n] = f
	}
	return all, nil
}
