package fetch

import (
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// suspects is what a Fetcher knows of jobs that were in hand in so many crashes that they run alone. Whoever has empty
// hands takes one; who never has, because there is always more to do, asks to empty them: it drains.
type suspects struct {
	queues map[string]bool // those of ours that have some and are not paused, as of the last look

	draining   string    // the queue for whose suspects we take nothing, if any
	drainUntil time.Time // when we give that up
	restUntil  time.Time // until when we do not ask again, having given it up
	wish       string    // the queue to ask for in the next pipeline
	undrain    string    // the queue whose drain is to be given back in the next pipeline
	asking     bool      // a request for a suspect is under way
	asideSince time.Time // since when nothing is taken for a suspect's sake; zero when that is not so
	othersTill time.Time // until when ordinary jobs come first, after a suspect, if there are any
	doubt      bool      // one may lie in our alone list that we do not know of: an answer was lost, or there was no lease
}

// ordinaryFactor is how many times as long as it stood aside for a suspect a process then takes ordinary jobs, if there are
// any: otherwise the suspects that a bad hour leaves behind would stop a whole fleet until each of them has run.
const ordinaryFactor = 3

// restFactor is how many times as long as it drained in vain a process takes again before it drains once more.
const restFactor = 10

// handsEmpty says whether this process has nothing in hand and nothing on its way but idle waits.
func (f *Fetcher) handsEmpty() bool {
	return f.life != nil && len(f.life.held) == 0 && f.running == 0 && f.inFlight == 0 && len(f.strays.found) == 0
}

// aside says whether nothing is to be taken for the sake of a suspect: one is in hand, or it is about to be asked for, or
// the hands are being emptied for it.
func (f *Fetcher) aside() bool {
	if f.quiet || f.life == nil {
		return false
	}
	return f.solitary() || f.cfg.Company.others(f)
}

// solitary says whether this Fetcher itself has, or is about to have, a suspect in hand.
func (f *Fetcher) solitary() bool {
	return f.life.alone != nil || f.suspects.doubt || f.strays.foundAlone() || f.suspects.draining != "" || f.suspects.asking ||
		(f.servesSuspects() && !f.fenced && f.life.Leased() && f.handsEmpty() && f.cfg.Company.idle(f))
}

// wantsAlone says whether a suspect can be asked for now. An idle wait might bring another job beside it.
func (f *Fetcher) wantsAlone() bool {
	return !f.quiet && !f.suspects.doubt && !f.strays.unsure && f.servesSuspects() && f.handsEmpty() && f.waits.open() == 0 && !f.fenced && f.life.Leased() && f.hasProcess()
}

// servesSuspects says whether there are suspects, and ordinary jobs have had their share since the last one.
func (f *Fetcher) servesSuspects() bool {
	return len(f.suspects.queues) > 0 && !time.Now().Before(f.suspects.othersTill)
}

// standAside notes since when nothing has been taken for a suspect's sake.
func (f *Fetcher) standAside(now time.Time) {
	switch s := &f.suspects; {
	case f.quiet || f.life == nil || !f.solitary():
		s.asideSince = time.Time{}
	case s.asideSince.IsZero():
		s.asideSince = now
	}
}

// endedAlone lets ordinary jobs have their share after a suspect.
func (f *Fetcher) endedAlone(now time.Time) {
	s := &f.suspects
	if !s.asideSince.IsZero() {
		s.othersTill = now.Add(ordinaryFactor * now.Sub(s.asideSince))
	}
	if s.draining != "" {
		f.endDrain()
	}
	f.dry = false
}

// hasProcess says whether nobody else in this process has anything in hand, nor will have until we say so.
func (f *Fetcher) hasProcess() bool {
	return f.cfg.Company.ask(f, f.suspects.draining != "" || f.strays.foundAlone())
}

// keepCompany tells the others in this process where we stand.
func (f *Fetcher) keepCompany() {
	if f.life == nil {
		return
	}
	f.cfg.Company.report(f, !f.handsEmpty(), f.waits.open() > 0)
	switch {
	case f.life.alone != nil: // also while quiet: it still runs
	case f.quiet || !f.solitary():
		f.cfg.Company.end(f)
	case f.suspects.doubt || f.suspects.draining != "" || f.strays.foundAlone():
		f.cfg.Company.ask(f, true)
	}
}

// Nudges brings news of others in this process that share a Company with the Fetcher; call Turn then.
func (f *Fetcher) Nudges() <-chan struct{} { return f.nudges }

// meet takes in how many suspects each of the queues has.
func (f *Fetcher) meet(queues []string, waiting []int) {
	clear(f.suspects.queues)
	first := ""
	for i, queue := range queues {
		if waiting[i] > 0 && !f.paused[queue] {
			f.suspects.queues[queue] = true
			if first == "" {
				first = queue
			}
		}
	}
	s := &f.suspects
	switch {
	case s.draining != "" && !s.queues[s.draining]:
		f.endDrain()
	case first != "" && f.servesSuspects() && !f.aside() && !time.Now().Before(s.restUntil):
		s.wish = first
	}
}

// addDrain adds what is to be said about draining to a pipeline.
func (f *Fetcher) addDrain(x *exchange) {
	s := &f.suspects
	if queue := s.wish; queue != "" && !f.quiet {
		ask := f.cfg.Keys.Drain(queue, f.life.Identity, f.cfg.DrainFor, f.life.record.TTL)
		x.add(ask.Call, func(reply driver.Reply) { f.handleDrain(queue, ask, reply) })
	}
	s.wish = ""
	if s.undrain != "" {
		x.add(f.cfg.Keys.Undrain(s.undrain, f.life.Identity), func(driver.Reply) {}) // it lapses by itself where that failed
		s.undrain = ""
	}
}

func (f *Fetcher) handleDrain(queue string, ask lua.Ask[bool], reply driver.Reply) {
	held, err := ask.Read(reply)
	if err != nil {
		if driver.Outage(err) {
			f.fail("drain", err)
			return
		}
		f.cfg.Reporter.refuse("drain", err)
		f.suspects.restUntil = time.Now().Add(restFactor * f.cfg.DrainFor)
		return
	}
	if held {
		f.suspects.draining, f.suspects.drainUntil = queue, time.Now().Add(f.cfg.DrainFor)
	}
}

// giveUpDrain takes again when hands did not become empty in time: what is in them may go on for hours.
func (f *Fetcher) giveUpDrain(now time.Time) {
	if f.suspects.draining != "" && !now.Before(f.suspects.drainUntil) {
		if f.life.alone == nil {
			f.suspects.restUntil = now.Add(restFactor * f.cfg.DrainFor)
		}
		f.endDrain()
	}
}

func (f *Fetcher) endDrain() {
	f.suspects.undrain, f.suspects.draining = f.suspects.draining, ""
	f.dry = false
}

// addTakeAlone asks for a suspect.
func (f *Fetcher) addTakeAlone(x *exchange) {
	life, queues := f.life, f.cfg.Order.Names()
	ask := f.cfg.Keys.TakeQuarantined(life.Identity, queues)
	f.suspects.asking = true
	f.promise(x, 1)
	x.add(ask.Call, func(reply driver.Reply) { f.handleAlone(life, queues, ask, reply) })
}

func (f *Fetcher) handleAlone(life *Life, queues []string, ask lua.Ask[lua.TakenQuarantined], reply driver.Reply) {
	f.suspects.asking = false
	taken, err := ask.Read(reply)
	if err != nil {
		f.suspects.doubt = life == f.life
		f.doubt(life, err)
		if driver.Outage(err) {
			f.fail("take a suspect", err)
			return
		}
		f.cfg.Reporter.refuse("take a suspect", err)
		clear(f.suspects.queues)
		f.dry = false
		return
	}
	f.succeed()
	switch taken.Word {
	case lua.QuarantineTaken:
		if len(taken.Bytes) > f.cfg.Largest {
			f.tooLarge(life, place{queue: queues[taken.Queue], alone: true}, lua.LargeOf(taken.Bytes))
			return
		}
		f.arriveAlone(life, queues[taken.Queue], taken.Bytes, life == f.life)
	case lua.QuarantineFenced:
		f.fenced = f.fenced || life == f.life
	case lua.QuarantineEmpty, lua.QuarantineBusy:
		// Busy: a job lies in our lists that we do not know of yet. The look will find it.
		clear(f.suspects.queues)
		f.dry = false
	}
}

// arriveAlone brings a suspect into hand.
func (f *Fetcher) arriveAlone(life *Life, queue, bytes string, wanted bool) *Held {
	held := life.take(queue, bytes)
	held.alone, life.alone = true, held
	life.aloneQueue.Store(&queue)
	switch {
	case !wanted || f.quiet:
		f.finish(held, job.Requeued())
	default:
		f.cfg.Log.Info().Str("jid", held.JID()).Str("queue", queue).
			Msg("a suspect runs alone: it was in hand in too many crashes; nothing else is taken meanwhile")
		f.prepare(held)
	}
	return held
}
