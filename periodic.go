package belay

import (
	"errors"
	"fmt"

	"github.com/belayq/belay/client"
)

// A Periodic is a job that is enqueued at the times of a schedule. Server.Schedule and Client.SetPeriodic
// accept it. Its fields are Name, Cron, Job, Zone, Jitter, CatchUp and Overlap; only the first three are
// required. See go doc github.com/belayq/belay/client.Periodic.
//
//	belay.Periodic{Name: "nightly", Cron: "0 3 * * *", Zone: "Europe/Berlin", Job: Report.Job(ReportArgs{})}
type Periodic = client.Periodic

type (
	// CatchUp is one of CatchUpOnce, CatchUpSkip and CatchUpAll.
	CatchUp = client.CatchUp
	// Overlap is one of OverlapSkip, OverlapQueue and OverlapAllow.
	Overlap = client.Overlap
)

const (
	// CatchUpOnce fires one tick for all that passed, the last of them.
	CatchUpOnce = client.CatchUpOnce
	// CatchUpSkip fires none of them. Each tick that is less than a minute late still fires.
	CatchUpSkip = client.CatchUpSkip
	// CatchUpAll fires each of them, the earliest first, but only the last thousand.
	CatchUpAll = client.CatchUpAll

	// OverlapSkip skips a tick while an earlier tick's job waits or runs, its retries included.
	OverlapSkip = client.OverlapSkip
	// OverlapQueue makes the tick wait, unless an earlier one waits already: its job is enqueued when the
	// earlier job has ended.
	OverlapQueue = client.OverlapQueue
	// OverlapAllow enqueues a job for each tick.
	OverlapAllow = client.OverlapAllow
)

// Schedule makes the fleet enqueue these periodic jobs, from the start of Run on, for as long as servers
// register them. While servers of several versions run, the definition of the one that started last is in
// force. If the schedule changes, what is due is fired, and ticks count from the change; other changes move no
// tick. A definition that no server has registered for a day in which servers ran is removed. A definition that
// was added at run time under the same name, by `belay periodic add` or Client.SetPeriodic, prevails.
//
// The error names everything that is wrong with the jobs; Run returns it, too. Schedule panics after Run.
func (s *Server) Schedule(jobs ...Periodic) error {
	l := s.made("Schedule")
	var errs []error
	for _, p := range jobs {
		definition, err := p.Definition()
		if err == nil {
			err = l.Schedule(definition)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("periodic job %q: %w", p.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		err = fmt.Errorf("belay: Schedule: %w", err)
		s.unscheduled = errors.Join(s.unscheduled, err)
		return err
	}
	return nil
}
