package belay

import (
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay/client"
)

// A Periodic is a job that is enqueued at the times of a schedule; Server.Schedule accepts it.
//
//	belay.Periodic{Name: "nightly", Cron: "0 3 * * *", Zone: "Europe/Berlin", Job: Report.Job(ReportArgs{})}
//
// Only Name, Cron and Job are required.
type Periodic struct {
	// Name identifies it in the whole fleet: every server may schedule it, and each tick is enqueued once.
	Name string
	// Cron has five fields, minute, hour, day of the month, month and day of the week, or it is a name such as
	// @hourly, @daily, @weekly or @monthly, or "@every 90s" with whole seconds, which count from 1970. A time
	// that is skipped when clocks are set forward is due at the instant of the change; a time that comes twice
	// is due the first time. A schedule for every hour, such as "*/30 * * * *", follows real time through both
	// changes.
	Cron string
	// Job is the job of each tick: of Definition.Job, with options such as Queue, Retries and Meta. In, At, JID
	// and PushOnce are errors. Push middleware does not run for these jobs.
	Job RawJob
	// Zone is the time zone of Cron by its name in the IANA database, which the program contains, such as
	// Europe/Berlin. Default: UTC.
	Zone string
	// Jitter delays each tick by less than this, in whole milliseconds, and never beyond the next tick, so that
	// schedules with the same time do not all fire at once. The delay of a tick is the same in all processes,
	// and does not change the TickAt of Info. Default: none.
	Jitter time.Duration
	// CatchUp sets which missed ticks are fired late. Default: CatchUpOnce.
	CatchUp CatchUp
	// Overlap sets what happens at a tick while the job of an earlier tick waits or runs. A job that is Unique
	// itself needs no Overlap: its own lock decides. Default: OverlapSkip.
	Overlap Overlap
}

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
// has registered for a day in which servers ran is removed. One that an operator has added with `belay
// periodic add` under the same name prevails.
//
// The error names everything that is wrong with the jobs; Run returns it, too. Schedule panics after Run.
func (s *Server) Schedule(jobs ...Periodic) error {
	l := s.made("Schedule")
	var errs []error
	for _, p := range jobs {
		made, err := p.Job.Periodic(client.Periodic{
			Name: p.Name, Cron: p.Cron, Zone: p.Zone, Jitter: p.Jitter, CatchUp: p.CatchUp, Overlap: p.Overlap,
		})
		if err == nil {
			err = l.Schedule(made)
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
