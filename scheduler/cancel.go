package scheduler

import (
	"context"
	"fmt"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// dropCancelled removes due jobs that were cancelled, with their locks, and returns the others. Usually nothing
// is cancelled, which costs nothing.
func (p *Poller) dropCancelled(ctx context.Context, set string, jobs []string) (others []string, err error) {
	if p.cfg.Marks.Len() == 0 {
		return jobs, nil
	}
	errand := lua.Errand{Fate: lua.FateGone}
	var dropped []*job.Job
	for _, raw := range jobs {
		parsed, err := job.Parse(raw)
		if err != nil || !p.cfg.Marks.Binds(parsed) {
			others = append(others, raw)
			continue
		}
		lock, _ := dedup.Read(parsed) // one that cannot be read expires by itself
		errand.Jobs = append(errand.Jobs, lua.Promotion{
			Old: raw, Lock: lock.Ending(parsed, parsed.QueueOrDefault(), p.cfg.Clock.Now(), p.cfg.Unit),
		})
		dropped = append(dropped, parsed)
	}
	if len(dropped) == 0 {
		return jobs, nil
	}
	if _, err := p.cfg.Keys.Act(lua.Source{Key: set}, []lua.Errand{errand}).Do(ctx, &p.link); err != nil {
		return nil, fmt.Errorf("drop cancelled jobs: %w", err)
	}
	for _, j := range dropped {
		p.cfg.Log.Info().Str("jid", j.JID()).Str("class", j.DisplayClass()).Str("queue", j.QueueOrDefault()).Msg("cancelled job dropped when it came due")
	}
	return others, nil
}
