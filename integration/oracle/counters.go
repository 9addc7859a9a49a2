package oracle

// exits are the ends of runs in one step, as they must be counted.
type exits struct {
	// ended are the runs after which the job was gone. Whether one of them failed too (a job that is not to be
	// kept) only the counter tells.
	ended int
	// failed are those that went to the retry set or to the dead set: of their failure, of a crash too many, or
	// unread.
	failed int
}

// judgeCounts holds that the counters moved in the step of the edges that they count, and by as much.
func (s *stride) judgeCounts() {
	runs := s.exits.ended + s.exits.failed
	c := s.count
	if c == (counts{}) && runs == 0 {
		return
	}
	if len(s.k.damaged) > 0 {
		return // a counter was made something else, and a run must end all the same
	}
	if s.k.foreign != nil && runs == 0 {
		return // a foreign worker counts in steps of their own
	}
	if c.processed != runs || c.failed < s.exits.failed || c.failed > runs {
		s.violate(s.any(), Counters, "processed moved by %d and failed by %d; %d runs ended, and at least %d of them failed",
			c.processed, c.failed, runs, s.exits.failed)
	}
	if c.processedToday != c.processed || c.failedToday != c.failed {
		s.violate(s.any(), Counters, "the day's counters moved by %d and %d, those of all days by %d and %d",
			c.processedToday, c.failedToday, c.processed, c.failed)
	}
	s.k.report.Discarded += max(c.failed-s.exits.failed, 0)
}

// any is one of the jobs that the step touched, to find it by; nil when there is none.
func (s *stride) any() *subject {
	if len(s.touched) == 0 {
		return nil
	}
	return s.touched[0]
}
