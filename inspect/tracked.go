package inspect

import (
	"context"
	"fmt"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// tracked reads what is known about the query's job if it is tracked. If the job has ended and is in no other
// place, its place is PlaceCompleted.
func (s *search) tracked(ctx context.Context) (bool, error) {
	if s.query.JID == "" {
		return false, nil
	}
	s.place = "completed jobs"
	ask := s.i.keys.ReadTrackedJob(s.query.JID)
	read, err := ask.Read(s.i.link.Carry(ctx, job.MaxPayloadLimit, ask.Call)[0])
	if err != nil {
		return false, fmt.Errorf("read the state of %s: %w", s.query.JID, err)
	}
	if read.State == lua.TrackWaiting {
		return false, nil
	}
	s.known = &read.Tracked
	if read.Payload == "" || !s.wants(PlaceCompleted) {
		return false, nil
	}
	s.looked++
	entry := newEntry(Home{place: PlaceCompleted}, lua.Entry{Bytes: read.Payload})
	found := entry.Found()
	found.JID, found.Since = s.query.JID, read.EndedAt
	return s.visit(found), nil
}
