package launcher

import (
	"time"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
)

// ghosts are runs that go on here after their process' life was over, each with its jid: their jobs were recovered from
// us, and come back, as they were or as retries, by any way that jobs come. None of them is run beside its own ghost.
type ghosts map[*fetch.Held]*ghost

type ghost struct {
	jid       string
	refusedAt time.Time // when a job was last refused because of it
}

const (
	// aside is how long a job waits in the schedule that nobody but us seems to take.
	aside = time.Second
	// again is within what time a second refusal says so. It is longer than fetch leaves a queue to others after the
	// first, and a job that comes back that soon has been seen by nobody else.
	again = 10 * time.Second
)

// haunt notes what still runs at the end of a life.
func (g ghosts) haunt(running map[*fetch.Held]bool) {
	for held := range running {
		if held.Life.Over() && g[held] == nil {
			g[held] = &ghost{jid: held.JID()}
		}
	}
}

// of is the ghost of a job, nil for most. Where there are no ghosts it costs nothing.
func (g ghosts) of(held *fetch.Held) *ghost {
	if len(g) == 0 {
		return nil
	}
	jid := held.JID()
	for _, ghost := range g {
		if ghost.jid == jid {
			return ghost
		}
	}
	return nil
}

// refuse hands a job back that must not run beside its ghost. The first time it goes straight back to the head of its
// queue, where the others of a fleet take it at once. If it comes to us again, there are none: at the head it would be all
// that we ever take, and what is behind it would wait for the ghost too. So it steps aside.
func (m *manager) refuse(held *fetch.Held, ghost *ghost, now time.Time) {
	recently := now.Sub(ghost.refusedAt) < again
	ghost.refusedAt = now
	if recently {
		m.fetcher.End(held, job.Snoozed(held.Bytes, aside))
		return
	}
	m.log.Info().Str("jid", held.JID()).Str("queue", held.Queue).
		Msg("handed straight back: an earlier run of the job, which was recovered from us, still goes on here")
	m.fetcher.Refuse(held)
}
