package main

import (
	"fmt"
	"io"
	"time"
)

// A screen is what a person sees of a demonstration: on a terminal one line that counts, otherwise a line now and then.
type screen struct {
	out      io.Writer
	terminal bool
	shownAt  time.Time
	counting bool // the cursor stands in the line that counts
}

const (
	// liveEvery is how often the count on a terminal changes: more cannot be read.
	liveEvery = 100 * time.Millisecond
	// lineEvery is how often a line is added to what is no terminal.
	lineEvery = 2 * time.Second
)

// newScreen shows on out, or on errs when out is kept for JSON.
func newScreen(out, errs io.Writer, asJSON bool) *screen {
	s := &screen{out: out}
	if asJSON {
		s.out = errs
	}
	s.terminal = isTerminal(s.out)
	return s
}

// say prints a line. A terminal that has gone does not end the demonstration.
func (s *screen) say(format string, args ...any) {
	if s.counting {
		_, _ = io.WriteString(s.out, "\r\x1b[K")
		s.counting = false
	}
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

func (s *screen) begin(flags demoFlags, redis *stage) {
	where := "an embedded Redis"
	if redis.embedded == nil {
		where = "Redis " + plain(redis.name)
	}
	s.say("%d jobs on %s, %d worker processes, %d of which will be killed while they work", flags.jobs, where, flags.workers, flags.kills)
	s.shownAt = time.Now()
}

func (s *screen) live(r report, workers int) {
	every := lineEvery
	if s.terminal {
		every = liveEvery
	}
	if time.Since(s.shownAt) < every {
		return
	}
	s.shownAt = time.Now()
	line := fmt.Sprintf("%6d of %d done, %d workers, %d killed, %d runs again", r.Done, r.Enqueued, workers, r.Kills, r.Reruns)
	if !s.terminal {
		s.say("%s", line)
		return
	}
	_, _ = io.WriteString(s.out, "\r\x1b[K"+line)
	s.counting = true
}

func (s *screen) killed(m *member, running int) {
	s.say("SIGKILL to %v with %s running", m, jobs(running))
}

func (s *screen) ledger(r report) {
	s.say("")
	s.say("enqueued   %6d", r.Enqueued)
	s.say("done       %6d", r.Done)
	s.say("run again  %6d", r.Reruns)
	s.say("kills      %6d", r.Kills)
	s.say("lost       %6d", r.Lost)
	s.say("")
	s.say("%s running in workers when these were killed. The other workers saw that they had stopped", were(r.Interrupted))
	s.say("beating, brought their jobs back to the queue and ran them again: at least once, and none lost.")
	s.say("(Counted from what the workers wrote into files, in %.1f s.)", r.Seconds)
}

func jobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

func were(n int) string {
	if n == 1 {
		return "1 job was"
	}
	return fmt.Sprintf("%d jobs were", n)
}
