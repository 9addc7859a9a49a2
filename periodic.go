package belay

import (
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay/client"
)

type (
	// CatchUp sets which of the ticks that passed while no server ran are fired late. It is a PeriodicOption.
	CatchUp = client.CatchUp
	// Overlap sets what happens at a tick while the job of an earlier tick waits or runs. It is a
	// PeriodicOption.
	Overlap = client.Overlap
)

const (
	// CatchUpOnce fires one tick for all that passed, the last of them. It is the default.
	CatchUpOnce = client.CatchUpOnce
	// CatchUpSkip fires none of them. Each tick that is less than a minute late still fires.
	CatchUpSkip = client.CatchUpSkip
	// CatchUpAll fires each of them, the earliest first, but only the last thousand.
	CatchUpAll = client.CatchUpAll

	// OverlapSkip skips a tick while an earlier tick's job waits or runs, its retries included. It is the
	// default.
	OverlapSkip = client.OverlapSkip
	// OverlapQueue makes the tick wait, unless an earlier one waits already: its job is enqueued when the
	// earlier job has ended.
	OverlapQueue = client.OverlapQueue
	// OverlapAllow enqueues a job for each tick.
	OverlapAllow = client.OverlapAllow
)

// A PeriodicOption configures Periodic.
type PeriodicOption = client.PeriodicOption

// A PeriodicJob is a job that is enqueued at the times of a schedule. Periodic makes it, and Server.Schedule
// accepts it.
type PeriodicJob struct {
	job  RawJob
	set  client.Periodic
	made bool
}

// Periodic returns a job that is enqueued at the times of a cron expression. name identifies it in the whole
// fleet: every server may schedule it, and each tick is enqueued once.
//
//	belay.Periodic("nightly", "0 3 * * *", Report.Job(ReportArgs{}), belay.Zone("Europe/Berlin"))
//
// The expression has five fields, minute, hour, day of the month, month and day of the week, or it is a name
// such as @hourly, @daily, @weekly or @monthly, or "@every 90s" with whole seconds, which count from 1970. A
// time that is skipped when clocks are set forward is due at the instant of the change; a time that comes
// twice is due the first time. A schedule for every hour, such as "*/30 * * * *", follows real time through
// both changes.
//
// The options are Zone, Jitter, one of CatchUpOnce, CatchUpSkip and CatchUpAll, and one of OverlapSkip,
// OverlapQueue and OverlapAllow. A job that is Unique itself needs no Overlap: its own lock decides. Options
// of the job, such as Queue, Retries and Meta, are for each tick's job; In, At, JID and PushOnce are errors.
// Push middleware does not run for these jobs.
func Periodic(name, cron string, job RawJob, options ...PeriodicOption) PeriodicJob {
	p := PeriodicJob{job: job, set: client.Periodic{Name: name, Cron: cron}, made: true}
	for _, option := range options {
		if option == nil {
			p.job.Fail(errNilOption)
			continue
		}
		option.Apply(&p.set)
	}
	return p
}

// Zone sets the time zone of a schedule by its name in the IANA database, such as Europe/Berlin. Default:
// UTC. The program contains the database.
func Zone(name string) PeriodicOption {
	return client.PeriodicOptionFunc(func(p *client.Periodic) { p.Zone = name })
}

// Jitter delays each tick by less than d, and never beyond the next tick, so that schedules with the same time
// do not all fire at once. The delay of a tick is the same in all processes, and does not change the TickAt of
// Info. Default: none.
func Jitter(d time.Duration) PeriodicOption {
	return client.PeriodicOptionFunc(func(p *client.Periodic) { p.Jitter = d })
}

// Schedule makes the fleet enqueue these periodic jobs, from the start of Run on, for as long as servers
// register them. While servers of several versions run, the definition of the one that started last is in
// force. If the schedule changes, what is due is fired, and ticks count from the change; other changes move no
// tick. A definition that no server has registered for a day in which servers ran is removed. A definition that
// an operator added with `belay periodic add` under the same name prevails.
//
// The error names everything that is wrong with the jobs; Run returns it, too. Schedule panics after Run.
func (s *Server) Schedule(jobs ...PeriodicJob) error {
	l := s.made("Schedule")
	var errs []error
	for _, periodic := range jobs {
		if !periodic.made {
			errs = append(errs, errors.New("a periodic job is empty; make it by Periodic"))
			continue
		}
		p, err := periodic.job.Periodic(periodic.set)
		if err == nil {
			err = l.Schedule(p)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("periodic job %q: %w", periodic.set.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		err = fmt.Errorf("belay: Schedule: %w", err)
		s.unscheduled = errors.Join(s.unscheduled, err)
		return err
	}
	return nil
}
