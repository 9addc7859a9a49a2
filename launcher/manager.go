package launcher

import (
	"context"
	"runtime"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
)

// order is what the manager may be told from outside.
type order int

const (
	orderQuiet order = iota
	orderStop
	orderStopNow
)

const (
	// moment is what a cancelled handler is given to come back. What it says then still counts as its outcome.
	moment = time.Second
	// lastSettle bounds what is waited for once all handlers are done with, goodbye included: Redis may be away, and then
	// the jobs are recovered as from a crash. One deadline for all, because a silent Redis uses up every single one.
	lastSettle = 2 * time.Second
	// goodbye is what is kept of it for leaving, many times what a Redis takes that is there.
	goodbye = 250 * time.Millisecond
)

// The manager is the one goroutine that owns what is in hand. It gathers what has finished, yields once and gathers again,
// and lets the fetcher send it all as one pipeline with a take for the processors that are idle then. That is all the
// batching there is: nothing waits for company.
type manager struct {
	fetcher *fetch.Fetcher
	crew    *crew
	log     *zerolog.Logger
	orders  chan order
	looks   chan fetch.Pulse // of beats that were confirmed
	reborn  chan *fetch.Life
	cancel  context.CancelCauseFunc // ends the context of every run
	timeout time.Duration
	leaving func(at time.Time) // hears once when the process will be gone at the latest

	running map[*fetch.Held]bool
	ready   []*fetch.Held // room for those that are laid into the tray together
	ends    []ended       // room for those that are taken together
	ghosts  ghosts
	stop    stopping
	// back are jobs that return unfinished while the process stops. They go together, so that they are in their old order.
	back []*fetch.Held
}

// stopping is how far a stop has come. Each instant is zero until it is set.
type stopping struct {
	asked      bool
	cancelAt   time.Time // when handlers are cancelled
	handBackAt time.Time // when what is unfinished goes back
	leaveAt    time.Time // when the manager goes, settled or not
}

// run loops until everything is settled after a stop, or until that has taken too long.
func (m *manager) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		m.heed()
		m.startReady()
		wake := m.fetcher.Turn()
		m.startReady()
		wake = m.advance(time.Now(), wake)
		if m.done() {
			return
		}
		timer.Reset(wait(wake))
		select {
		case <-m.crew.ended.some:
		case event := <-m.fetcher.Events():
			m.fetcher.Handle(event)
		case life := <-m.reborn:
			m.ghosts.haunt(m.running)
			m.fetcher.Enter(life)
		case <-m.fetcher.Nudges():
		case pulse := <-m.looks:
			m.fetcher.Look(pulse)
		case what := <-m.orders:
			m.obey(what)
		case <-timer.C:
		}
		m.gather()
	}
}

// heed obeys what has been ordered, before anything more is taken.
func (m *manager) heed() {
	for {
		select {
		case what := <-m.orders:
			m.obey(what)
		default:
			return
		}
	}
}

// wait is how long until at, or long for no instant.
func wait(at time.Time) time.Duration {
	if at.IsZero() {
		return time.Hour
	}
	return max(time.Until(at), 0)
}

// gather takes in everything that has already come back, yields once, and does so again: the processors that were just
// about to finish then share this turn's round trip.
func (m *manager) gather() {
	for range 2 {
		m.ends = m.crew.ended.take(m.ends)
		for _, end := range m.ends {
			m.end(end)
		}
		clear(m.ends)
		m.ends = m.ends[:0]
		for more := true; more; {
			select {
			case event := <-m.fetcher.Events():
				m.fetcher.Handle(event)
			default:
				more = false
			}
		}
		runtime.Gosched()
	}
}

func (m *manager) end(end ended) {
	delete(m.running, end.held)
	delete(m.ghosts, end.held)
	switch {
	case m.stop.asked && end.outcome.Exit() == job.ExitRequeued:
		m.back = append(m.back, end.held)
	case end.refused:
		m.fetcher.Refuse(end.held)
	default:
		m.fetcher.End(end.held, end.outcome)
	}
	if len(m.running) == 0 {
		m.handBack()
	}
}

// startReady gives taken jobs to idle processors.
func (m *manager) startReady() {
	for {
		held, ok := m.fetcher.Ready()
		if !ok {
			break
		}
		if ghost := m.ghosts.of(held); ghost != nil {
			m.refuse(held, ghost, time.Now())
			continue
		}
		m.running[held] = true
		m.ready = append(m.ready, held)
	}
	if len(m.ready) > 0 {
		m.crew.work.lay(m.ready)
		clear(m.ready)
		m.ready = m.ready[:0]
	}
}

func (m *manager) obey(what order) {
	now := time.Now()
	switch what {
	case orderQuiet:
		m.fetcher.Quiet()
	case orderStop:
		m.fetcher.Quiet()
		if !m.stop.asked {
			m.stop.asked, m.stop.cancelAt = true, now.Add(m.timeout)
		}
	case orderStopNow:
		m.fetcher.Quiet()
		m.stop.asked = true
		if m.stop.handBackAt.IsZero() {
			m.stop.cancelAt = now
		}
	}
}

// advance takes a stop further when its time has come, and answers when it wants to be called again.
func (m *manager) advance(now, wake time.Time) time.Time {
	s := &m.stop
	if !s.asked {
		return wake
	}
	if len(m.running) > 0 && s.handBackAt.IsZero() && !now.Before(s.cancelAt) {
		m.cancel(ErrShutdown)
		s.handBackAt = now.Add(moment)
	}
	if len(m.running) > 0 && !s.handBackAt.IsZero() && !now.Before(s.handBackAt) {
		m.handBack()
		wake = now // there is something to send
	}
	if len(m.running) == 0 && s.leaveAt.IsZero() {
		s.leaveAt = now.Add(lastSettle - goodbye)
		m.leaving(now.Add(lastSettle))
	}
	for _, at := range []time.Time{s.leaveAt, s.handBackAt, s.cancelAt} {
		if at.After(now) && (wake.IsZero() || at.Before(wake)) {
			wake = at
		}
	}
	return wake
}

// handBack returns every job that came back unfinished, or still runs, to the head of its queue, byte for byte. The
// handler of one that still runs may go on and say what it likes: the job is not in our hands any more.
func (m *manager) handBack() {
	for held := range m.running {
		m.back = append(m.back, held)
	}
	clear(m.running)
	for _, held := range m.back {
		m.fetcher.End(held, job.Requeued())
	}
	m.back = nil
}

func (m *manager) done() bool {
	if !m.stop.asked || len(m.running) > 0 {
		return false
	}
	return m.fetcher.Settled() || (!m.stop.leaveAt.IsZero() && !time.Now().Before(m.stop.leaveAt))
}
