package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Find returns the place of the job with this jid or Entry.ID. It reads all places a page at a time, in the
// order in which jobs pass through them, and reads them twice before it reports PlaceNotFound: a job that
// moves against that order (a retry that comes due, a requeue) can leave a place just before Find reads it.
// It may read every job in Redis, which compares about 500,000 a second. After each page it calls progress,
// unless nil, with the number of entries read and the current place.
//
// When ctx reaches its deadline, Find returns PlaceNotFound with Unseen set, and no error.
func (i *Inspector) Find(ctx context.Context, jid string, progress func(looked int, place string)) (Found, error) {
	found := Found{JID: jid, Place: PlaceNotFound}
	s := &search{i: i, query: Query{JID: jid}, jids: []string{jid}}
	s.visit = func(f Found) bool {
		found, found.JID, found.Tracked = f, jid, s.known
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
