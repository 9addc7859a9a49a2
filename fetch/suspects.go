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
	return !f.quiet && !f.suspects.doubt && f.servesSuspects() && f.handsEmpty() && f.waits.open() == 0 && !f.fenced && f.life.Leased() && f.hasProcess()
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

// A drainAsk asks to drain for a queue.
type drainAsk struct {
	queue string
	ask   lua.Ask[bool]
}

// composeDrain adds what is to be said about draining to a pipeline.
func (f *Fetcher) composeDrain() (wish *drainAsk, undrain *driver.Call) {
	s := &f.suspects
	if s.wish != "" && !f.quiet {
		wish = &drainAsk{s.wish, f.cfg.Keys.Drain(s.wish, f.life.Identity, f.cfg.DrainFor, f.life.record.TTL)}
	}
	s.wish = ""
	if s.undrain != "" {
		call := f.cfg.Keys.Undrain(s.undrain, f.life.Identity)
		undrain, s.undrain = &call, ""
	}
	return wish, undrain
}

func (w *drainAsk) handle(f *Fetcher, reply driver.Reply) {
	held, err := w.ask.Read(reply)
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
		f.suspects.draining, f.suspects.drainUntil = w.queue, time.Now().Add(f.cfg.DrainFor)
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

func (f *Fetcher) handleAlone(x *exchange, reply driver.Reply) {
	f.suspects.asking = false
	taken, err := x.alone.Read(reply)
	if err != nil {
		f.suspects.doubt = x.life == f.life
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
	case lua.AloneTaken:
		f.arriveAlone(x.life, x.queues[taken.Queue], taken.Bytes, x.life == f.life)
	case lua.AloneFenced:
		f.fenced = f.fenced || x.life == f.life
	case lua.AloneEmpty, lua.AloneBusy:
		// Busy: a job lies in our lists that we do not know of yet. The look will find it.
		clear(f.suspects.queues)
		f.dry = false
	}
}

// arriveAlone brings a suspect into hand.
func (f *Fetcher) arriveAlone(life *Life, queue, bytes string, wanted bool) *Held {
	held := life.take(queue, bytes)
	held.alone, life.alone = true, held
	f.strays.known(held.place(), bytes)
	switch {
	case len(bytes) > f.cfg.Largest:
		f.finish(held, job.Unread(bytes))
	case !wanted || f.quiet:
		f.finish(held, job.HandedBack())
	default:
		f.cfg.Log.Info().Str("jid", held.JID()).Str("queue", queue).
			Msg("a suspect runs alone: it was in hand in too many crashes; nothing else is taken meanwhile")
		f.ready = append(f.ready, held)
	}
	return held
}
