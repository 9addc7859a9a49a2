package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// Tracked is what is known about a tracked job that has begun.
type Tracked = lua.Tracked

// TrackState is the state of a tracked job.
type TrackState = lua.TrackState

// The states of a tracked job. Their names are a contract. The last five are ends.
const (
	TrackWaiting   = lua.TrackWaiting   // no worker has reported the job
	TrackRunning   = lua.TrackRunning   // a worker runs it, or has crashed while it ran it
	TrackRetrying  = lua.TrackRetrying  // its last run failed, and it runs again
	TrackDone      = lua.TrackDone      // its last run succeeded
	TrackDead      = lua.TrackDead      // it is, or was, in the dead set
	TrackDiscarded = lua.TrackDiscarded // its last run failed, and it was not kept
	TrackCancelled = lua.TrackCancelled // it was cancelled, or deleted by an operator
	TrackExpired   = lua.TrackExpired   // it would have started too late
)

// trackedAtOnce is how many tracked jobs one pipeline reads: each may be up to a megabyte.
const trackedAtOnce = 16

// trackedJobs reads what is known about these jobs, at most trackedAtOnce, if they are tracked.
func (i *Inspector) trackedJobs(ctx context.Context, jids []string) ([]lua.TrackedJob, error) {
	asks, calls := lua.AskEach(jids, i.keys.ReadTrackedJob)
	jobs := make([]lua.TrackedJob, len(jids))
	for n, reply := range i.link.Carry(ctx, job.MaxPayloadLimit, calls...) {
		var err error
		if jobs[n], err = asks[n].Read(reply); err != nil {
			return nil, fmt.Errorf("read the state of %s: %w", jids[n], err)
		}
	}
	return jobs, nil
}

// fillCompleted reads what is kept of completed jobs, of which the entries have the jids.
func (i *Inspector) fillCompleted(ctx context.Context, entries []Entry) error {
	for page := range slices.Chunk(entries, trackedAtOnce) {
		jids := make([]string, len(page))
		for n := range page {
			jids[n] = page[n].raw.Bytes
		}
		read, err := i.trackedJobs(ctx, jids)
		if err != nil {
			return err
		}
		for n := range page {
			// Of a job with the same jid that was pushed later there is no payload, or there is another state.
			page[n].Tracked, page[n].gone = &read[n].Tracked, !read[n].State.Ended() || read[n].Payload == ""
			page[n].raw.Bytes = read[n].Payload
		}
	}
	return nil
}

// completedJob returns the Found of a tracked job that has ended and is in no other place.
func (i *Inspector) completedJob(read lua.TrackedJob) Found {
	found := i.entry(Entry{home: Home{place: PlaceCompleted}, raw: lua.Entry{Bytes: read.Payload}}).Found()
	found.JID, found.Since = read.JID, read.EndedAt
	return found
}

// readTracked reads the states of the query's jobs, wherever the search continues. A search in a few places
// does without them: it may be for thousands of jobs.
func (s *search) readTracked(ctx context.Context) error {
	if !s.wants(PlaceCompleted) {
		return nil
	}
	s.place = "completed jobs"
	for jids := range slices.Chunk(s.query.IDs, trackedAtOnce) {
		read, err := s.i.trackedJobs(ctx, jids)
		if err != nil {
			return err
		}
		for n, jid := range jids {
			if read[n].State != TrackWaiting {
				s.tracked[jid] = &read[n]
			}
		}
	}
	return nil
}

// completed visits the query's jobs that have ended and are in no other place. They are not divided. Without
// IDs it searches all completed jobs, but only for a query that names their place: most queries are for jobs
// that wait or run.
func (s *search) completed(ctx context.Context) (stopped bool, err error) {
	if len(s.query.IDs) == 0 && slices.Contains(s.query.Places, PlaceCompleted) {
		return s.home(ctx, Completed())
	}
	for _, jid := range s.query.IDs {
		read := s.tracked[jid]
		if read == nil || read.Payload == "" {
			continue
		}
		s.looked++
		stopped = s.found(s.i.completedJob(*read)) || stopped
	}
	if stopped {
		s.at.Stage++
	}
	return stopped, nil
}
