package client

import (
	"context"
	"strings"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A writer writes the payloads of the jobs of one push. What they have in common, and the memory that they need
// for a short time, it makes once for many of them: the jobs of a bulk push cost half as much then. The zero
// writer is ready, for one job.
type writer struct {
	job.Encoder
	bulk bool // many jobs will follow

	scratch []byte          // for the text that is being written
	fields  []job.Edit      // of the job that is being written
	texts   strings.Builder // the texts of kept are parts of its string
	jids    []string        // for the next jobs
	turn    *space          // the shard of the next plain jobs; nil for the next one in turn
	clockOf *space          // whose now is
	readAt  time.Time       // when now was read, by this machine's clock
	now     time.Time       // by Redis' clock
}

// kept returns a string with this text. Those of a bulk push are parts of larger strings, because all of them
// live until their call is over.
func (w *writer) kept(text []byte) string {
	if !w.bulk {
		return string(text)
	}
	const page = 16 << 10 // some hundred payloads, and no more than a slab of Go's allocator may have
	if w.texts.Cap()-w.texts.Len() < len(text) {
		w.texts.Reset()
		w.texts.Grow(max(len(text), page))
	}
	start := w.texts.Len()
	w.texts.Write(text)
	return w.texts.String()[start:]
}

// jid returns the id of a job that has none. A bulk push draws them by the dozen, because asking for randomness
// costs more than a few bytes of it. They are drawn for less than a slice: one that the caller keeps, keeps the
// text of all of them.
func (w *writer) jid() string {
	if !w.bulk {
		return job.NewJID()
	}
	if len(w.jids) == 0 {
		w.jids = job.NewJIDs(lua.MaxItems / 4)
	}
	jid := w.jids[0]
	w.jids = w.jids[1:]
	return jid
}

// stampEvery is how long the jobs of a bulk push have the same time in their payloads.
const stampEvery = time.Millisecond

// nowFor is space.nowFor. here is the time by this machine's clock.
func (w *writer) nowFor(ctx context.Context, s *space, due, here time.Time) time.Time {
	if !due.IsZero() {
		return s.nowFor(ctx, due)
	}
	if !w.bulk || here.Sub(w.readAt) >= stampEvery || w.clockOf != s {
		w.clockOf, w.readAt, w.now = s, here, s.nowFor(ctx, due)
	}
	return w.now
}
