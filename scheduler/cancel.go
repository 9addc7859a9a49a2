package scheduler

import (
	"context"
	"fmt"
	"slices"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// dropCancelled removes due jobs that were cancelled, with their locks and their states, and returns the
// others. Usually nothing is cancelled, which costs nothing.
func (p *Poller) dropCancelled(ctx context.Context, set string, jobs []string) (others []string, err error) {
	if p.cfg.Marks.Len() == 0 {
		return jobs, nil
	}
	group := lua.ActGroup{Destination: lua.DestinationNone}
	var dropped []*job.Job
	var ended []string // jids of tracked jobs
	for _, raw := range jobs {
		parsed, err := job.Parse(raw)
		if err != nil || !p.cfg.Marks.Binds(parsed) {
			others = append(others, raw)
			continue
		}
		now := p.cfg.Clock.Now()
		lock, _ := dedup.Read(parsed) // one that cannot be read expires by itself
		state := lua.EndedState(parsed, lua.TrackCancelled, now)
		if state != nil {
			ended = append(ended, state.JID)
		} else {
			state = &lua.JobState{JID: parsed.JID()} // a cursor of an earlier run ends with the job
		}
		group.Jobs = append(group.Jobs, lua.Promotion{
			Old: raw, Owned: lua.Owned{Lock: lock.Ending(parsed, parsed.QueueOrDefault(), now, p.cfg.Unit), State: state, Member: lua.MemberOf(parsed, lua.MemberRemoved)},
		})
		dropped = append(dropped, parsed)
	}
	if len(dropped) == 0 {
		return jobs, nil
	}
	act := p.cfg.Keys.Act(lua.Source{Key: set}, []lua.ActGroup{group})
	acted, err := act.Read(p.link.Carry(ctx, 0, act.Call)[0])
	if err != nil {
		return nil, fmt.Errorf("drop cancelled jobs: %w", err)
	}
	if len(ended) > 0 {
		// After the script, so that a caller that waits reads the new state.
		p.link.Do(ctx, p.cfg.Keys.AnnounceEnded(ended))
	}
	for n, j := range dropped {
		if !slices.Contains(acted.Gone, n) {
			p.cfg.Log.Info("cancelled job dropped when it came due", "jid", j.JID(), "class", j.DisplayClass(), "queue", j.QueueOrDefault())
		}
	}
	return others, nil
}
