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

// The values of CatchUp and Overlap. A tick is one time of a Periodic's schedule. It is missed if it passed
// while no server ran.
const (
	// CatchUpOnce fires only the last missed tick.
	CatchUpOnce = client.CatchUpOnce
	// CatchUpSkip fires only missed ticks that are less than a minute late.
	CatchUpSkip = client.CatchUpSkip
	// CatchUpAll fires each missed tick, the earliest first, but at most the last thousand.
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
// register them. While servers of several versions run, the Periodic of the one that started last is in
// force. If a new version changes Cron or Zone, ticks that are already due are fired, and later ones
// follow the new schedule from then on. A change of another field moves no tick. A Periodic that no server
// has registered for a day in which servers ran is removed. One that was added at run time under the same
// name, by `belay periodic add` or Client.SetPeriodic, prevails.
//
// The error names everything that is wrong with the jobs; Run returns it, too. Schedule panics after Run.
func (s *Server) Schedule(jobs ...Periodic) error {
	l := s.made("Schedule")
	var errs []error
	for _, p := range jobs {
		definition, err := p.DefinitionFor(s.client)
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
