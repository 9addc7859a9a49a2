package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// dropCancelled removes due jobs that were cancelled, with their locks and their states, and returns the
// others. Usually nothing is cancelled, which costs nothing. If Redis refuses to remove them together, each
// goes by itself: a job with a broken key stops no other one. stay is how many jobs were left where they are,
// and refused is why the first of them was.
func (p *Poller) dropCancelled(ctx context.Context, set string, jobs []string) (others []string, stay int, refused, err error) {
	if p.cfg.Marks.Len() == 0 {
		return jobs, 0, nil, nil
	}
	var dropped []cancelled
	for _, raw := range jobs {
		parsed, err := job.Parse(raw)
		if err != nil || !p.cfg.Marks.Binds(parsed) {
			others = append(others, raw)
			continue
		}
		dropped = append(dropped, p.cancelled(parsed))
	}
	if len(dropped) == 0 {
		return jobs, 0, nil, nil
	}
	if stay, refused, err = p.drop(ctx, set, dropped); refused != nil && len(dropped) > 1 {
		stay, refused, err = p.drop(ctx, set, slices.Collect(slices.Chunk(dropped, 1))...)
	}
	return others, stay, refused, err
}

// drop removes cancelled jobs, those of each group in one step. stay is how many Redis refused to remove.
func (p *Poller) drop(ctx context.Context, set string, groups ...[]cancelled) (stay int, refused, err error) {
	asks, calls := lua.AskEach(groups, func(group []cancelled) lua.Ask[lua.Acted] {
		act := lua.ActGroup{Destination: lua.DestinationNone}
		for _, c := range group {
			act.Jobs = append(act.Jobs, c.Promotion)
		}
		return p.cfg.Keys.Act(lua.Source{Key: set}, []lua.ActGroup{act})
	})
	var ended []string // jids of tracked jobs
	for i, reply := range p.link.Carry(ctx, 0, calls...) {
		acted, actErr := asks[i].Read(reply)
		switch {
		case driver.Outage(actErr):
			err = fmt.Errorf("drop cancelled jobs: %w", actErr)
			continue // later ones may have been answered
		case actErr != nil:
			stay, refused = stay+len(groups[i]), cmp.Or(refused, fmt.Errorf("drop cancelled jobs: %w", actErr))
			continue
		}
		for n, c := range groups[i] {
			if c.tracked {
				ended = append(ended, c.JID())
			}
			if !slices.Contains(acted.Gone, n) {
				p.cfg.Log.Info("cancelled job dropped when it came due", "jid", c.JID(), "class", c.DisplayClass(), "queue", c.QueueOrDefault())
			}
		}
	}
	if len(ended) > 0 {
		// After the script, so that a caller that waits reads the new state.
		p.link.Do(ctx, p.cfg.Keys.AnnounceEnded(ended))
	}
	return stay, refused, err
}

// A cancelled is a due job that is removed, with what belongs to it.
type cancelled struct {
	*job.Job
	lua.Promotion
	tracked bool
}

func (p *Poller) cancelled(parsed *job.Job) cancelled {
	now := p.cfg.Clock.Now()
	lock, _ := dedup.Read(parsed) // one that cannot be read expires by itself
	state := lua.EndedState(parsed, lua.TrackCancelled, now)
	tracked := state != nil
	if !tracked {
		state = &lua.JobState{JID: parsed.JID()} // a cursor of an earlier run ends with the job
	}
	return cancelled{parsed, lua.Promotion{
		Old: parsed.Raw(), Owned: lua.Owned{Lock: lock.Ending(parsed, parsed.QueueOrDefault(), now, p.cfg.Unit), State: state, Member: lua.MemberOf(parsed, lua.MemberRemoved)},
	}, tracked}
}
