package main

import (
	"context"
	"time"
)

// A show is one demonstration under way: it keeps the workers complete, kills them, and reads what they did.
type show struct {
	flags  demoFlags
	crew   *crew
	ledger *ledger
	screen *screen
	kills  int
}

// A report is the ledger at the end.
type report struct {
	Enqueued    int     `json:"enqueued"`
	Done        int     `json:"done"`
	Reruns      int     `json:"reruns"`
	Kills       int     `json:"kills"`
	Interrupted int     `json:"interrupted"`
	Unfinished  int     `json:"unfinished"`
	Lost        int     `json:"lost"`
	Workers     int     `json:"workers"`
	Seconds     float64 `json:"seconds"`
	Redis       string  `json:"redis"`
}

func (s *show) report() report {
	return report{
		Enqueued: s.flags.jobs, Done: len(s.ledger.done), Reruns: s.ledger.reruns(), Kills: s.kills,
		Interrupted: len(s.ledger.interrupted), Workers: s.flags.workers,
	}
}

// run goes on until every job is done or ctx ends.
func (s *show) run(ctx context.Context) error {
	tick := time.NewTicker(demoLook)
	defer tick.Stop()
	for {
		if err := s.crew.fill(s.flags.workers); err != nil {
			return err
		}
		if err := s.look(); err != nil {
			return err
		}
		s.screen.live(s.report(), len(s.crew.members))
		if len(s.ledger.done) >= s.flags.jobs {
			return nil
		}
		if s.killIsDue() {
			if err := s.kill(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *show) look() error {
	for _, m := range s.crew.everyone {
		if err := s.ledger.read(m.file); err != nil {
			return err
		}
	}
	return nil
}

// killIsDue spreads the kills over the jobs, with as many jobs before the first as after the last.
func (s *show) killIsDue() bool {
	return s.kills < s.flags.kills && len(s.ledger.done) >= s.flags.jobs*(s.kills+1)/(s.flags.kills+1)
}

// kill kills a worker that has jobs running, if there is one none of whose jobs was hit before. A job that is in hand in
// crash after crash is taken for their cause, and rightly so; that is another promise than the one shown here.
func (s *show) kill() error {
	for i, m := range s.crew.members {
		if !s.ledger.mayHit(m.file) {
			continue
		}
		s.crew.kill(i)
		if err := s.ledger.read(m.file); err != nil {
			return err
		}
		// What had started and not ended when the process was gone: it may have ended its last job in between.
		if hit := s.ledger.hit(m.file); hit > 0 {
			s.kills++
			s.screen.killed(m, hit)
		}
		return nil
	}
	return nil
}
