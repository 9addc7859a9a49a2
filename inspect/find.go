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
	// Since is when the job arrived there, according to the job or its process. At is when a scheduled job or
	// a retry is due.
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
	// Tracked is the state of a tracked job that has begun; nil for any other. Only a search by ID reads it.
	Tracked *Tracked `json:"tracked,omitempty"`
	// Looked is the number of entries that Find read.
	Looked int `json:"looked"`
	// Unseen lists the places that Find could not search to their end; empty if the search was complete.
	Unseen string `json:"unseen,omitempty"`
	// Entry is the whole job; nil if it was not found or runs in a process of Sidekiq.
	Entry *Entry `json:"job,omitempty"`
}

// Find returns the place of the job with this jid or Entry.ID. It reads all places a page at a time, in the
// order in which jobs pass through them, and reads them twice before it reports PlaceNotFound: a job that
// moves against that order (a retry that comes due, a requeue) can leave a place just before Find reads it.
// It may read every job in Redis, which compares about 500,000 a second. After each page it calls progress,
// unless nil, with the number of entries read and the current place.
//
// When ctx reaches its deadline, Find returns PlaceNotFound with Unseen set, and no error.
func (i *Inspector) Find(ctx context.Context, jid string, progress func(looked int, place string)) (Found, error) {
	found := Found{JID: jid, Place: PlaceNotFound}
	s := i.search(Query{IDs: []string{jid}})
	s.visit = func(f Found) bool {
		found = f
		return true
	}
	s.pageEnd = func() bool {
		if progress != nil {
			progress(s.looked, s.place)
		}
		return false
	}
	late := false
	for pass := 0; pass < 2 && !late; pass++ {
		s.at, s.unseen = searchPosition{}, nil
		stopped, err := s.run(ctx)
		late = errors.Is(ctx.Err(), context.DeadlineExceeded)
		switch {
		case stopped:
			found.Looked = s.looked
			return found, nil
		case late:
			s.unseen = append(s.unseen, "it took too long: stopped in "+s.place)
		case err != nil:
			return Found{}, fmt.Errorf("look for %s in %s: %w", jid, s.place, err)
		}
	}
	found.Looked, found.Unseen = s.looked, strings.Join(s.unseen, "; ")
	return found, nil
}
