package belay

import (
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay/client"
)

type (
	// CatchUp says what becomes of ticks that passed while no server ran. It is a PeriodicOption.
	CatchUp = client.CatchUp
	// Overlap says what becomes of a tick while the job of an earlier one waits or runs. It is a
	// PeriodicOption.
	Overlap = client.Overlap
)

const (
	// CatchUpOnce fires one tick for all that passed, the last of them. It is the default.
	CatchUpOnce = client.CatchUpOnce
	// CatchUpSkip fires none of them. A tick that is less than a minute late has not passed.
	CatchUpSkip = client.CatchUpSkip
	// CatchUpAll fires each of them, the earliest first, but only the last thousand.
	CatchUpAll = client.CatchUpAll

	// OverlapSkip leaves a tick out while an earlier tick's job waits or runs, its retries included. It is
	// the default.
	OverlapSkip = client.OverlapSkip
	// OverlapQueue enqueues the tick's job unless one waits already, so that it runs after the one that runs.
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
// such as @hourly, @daily, @weekly or @monthly, or "@every 90s" with whole seconds, which count from 1970. Of
// a time that is skipped when clocks are set forward, the tick is at the instant at which they are set; of
// one that comes twice, it is the first. A schedule for every hour, such as "*/30 * * * *", follows real time
// through both.
//
// Zone, CatchUpOnce and its kind, OverlapSkip and its kind, and Jitter are options. A job that is Unique
// itself needs no Overlap: its own lock decides. Options of the job, such as Queue, Retries and Meta, are for
// each tick's job; In, At, JID and PushOnce are errors. Push middleware does not see the jobs.
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
// UTC. The rules of all zones are part of the program.
func Zone(name string) PeriodicOption {
	return client.PeriodicOptionFunc(func(p *client.Periodic) { p.Zone = name })
}

// Jitter delays each tick by less than d, so that schedules of one time do not all begin at once. The delay
// of a tick is the same in all processes. Info has its time without the delay. Default: none.
func Jitter(d time.Duration) PeriodicOption {
	return client.PeriodicOptionFunc(func(p *client.Periodic) { p.Jitter = d })
}

// Schedule makes the fleet enqueue these periodic jobs from the start of Run on, as long as a server has them
// in its code. Where servers of several versions run, the definition of the one that started last is in
// force. A changed schedule counts from the change; a change of the job alone moves no tick. A definition
// that no server has had for a day of running is removed. What an operator added by `belay periodic add`
// under the same name prevails.
//
// The error names everything that is wrong with the jobs; Run returns it, too. Schedule panics after Run.
func (s *Server) Schedule(jobs ...PeriodicJob) error {
	l := s.made("Schedule")
	var wrong []error
	for _, one := range jobs {
		if !one.made {
			wrong = append(wrong, errors.New("a periodic job is empty; make it by Periodic"))
			continue
		}
		p, err := one.job.Periodic(one.set)
		if err == nil {
			err = l.Schedule(p)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("periodic job %q: %w", one.set.Name, err))
		}
	}
	if err := errors.Join(wrong...); err != nil {
		err = fmt.Errorf("belay: Schedule: %w", err)
		s.unscheduled = errors.Join(s.unscheduled, err)
		return err
	}
	return nil
}
