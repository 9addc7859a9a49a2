package oracle

import "slices"

// A way is an edge without its meaning.
type way struct{ from, to Place }

// A crossing is one job's way from one place to another within one step; either may be Nowhere.
type crossing struct {
	*stride
	of      *subject
	out, in leg
}

// laws is what holds of each way that a job may go, and what going it means. A way that is not here is
// illegal.
var laws map[way]func(c *crossing) Move

func init() { // in a function, because the rules themselves look at the step that is judged by them
	laws = map[way]func(c *crossing) Move{
		{Nowhere, Queue}:    (*crossing).accepted,
		{Nowhere, Schedule}: (*crossing).accepted,

		{Queue, Working}:            (*crossing).taken,
		{Quarantine, QuarantineRun}: (*crossing).takenAlone,
		{Queue, Dead}:               (*crossing).unrunnable,
		{Quarantine, Dead}:          (*crossing).unrunnable,

		{Working, Nowhere}:          (*crossing).ended,
		{QuarantineRun, Nowhere}:    (*crossing).ended,
		{Working, Retry}:            (*crossing).retried,
		{QuarantineRun, Retry}:      (*crossing).retried,
		{Working, Schedule}:         (*crossing).snoozed,
		{QuarantineRun, Schedule}:   (*crossing).snoozed,
		{Working, Dead}:             (*crossing).dies,
		{QuarantineRun, Dead}:       (*crossing).dies,
		{Working, Queue}:            (*crossing).back,
		{Working, Quarantine}:       (*crossing).back,
		{QuarantineRun, Quarantine}: (*crossing).back,

		{Working, Waiting}: (*crossing).parked,
		{Waiting, Queue}:   (*crossing).admitted,

		{Schedule, Queue}:      (*crossing).promoted,
		{Schedule, Quarantine}: (*crossing).promoted,
		{Schedule, Dead}:       (*crossing).unrunnable,
		{Retry, Queue}:         (*crossing).promoted,
		{Retry, Quarantine}:    (*crossing).promoted,
		{Retry, Dead}:          (*crossing).unrunnable,

		{Dead, Nowhere}: (*crossing).trimmed,
	}
}

// place is where a leg lies; Nowhere for none.
func (l leg) place() Place {
	if l.at == nil {
		return Nowhere
	}
	return l.at.place
}

// judge looks at all that the step did to jobs, once it is done.
func (s *stride) judge() {
	for _, of := range s.touched {
		for _, l := range of.trip.ins {
			s.kills = s.kills || l.place() == Dead
		}
	}
	for _, of := range s.touched {
		t := of.trip
		of.read(t)
		of.trip = nil
		if s.base {
			s.restore(of, t)
		} else {
			s.judgeTrip(of, t)
		}
	}
	s.judgeLocks()
	s.judgeBatches()
	s.judgeNext()
	s.judgeGates()
	for _, of := range s.touched {
		s.k.drop(of)
	}
	if !s.base {
		s.judgeCounts()
	}
}

// read notes what the step leaves of a subject: its text, and its due time.
func (of *subject) read(t *trip) {
	for _, l := range slices.Concat(t.outs, t.ins) {
		of.text, of.score = l.entry.text, l.entry.score
	}
	of.left = Nowhere
	for _, l := range t.outs {
		if l.place().inHand() {
			of.left, of.leftBy, of.leftText = l.place(), l.at.identity, l.entry.text
		}
	}
}

func (s *stride) restore(of *subject, t *trip) {
	for _, l := range t.ins {
		if !l.merged {
			s.note(of, Edge{Nowhere, l.place(), Restored})
			s.k.report.Accepted++
		}
	}
}

// judgeTrip judges what the step did to one subject. A job goes one way in a step; copies that cannot be
// reported apart may go several, and are paired in their order.
func (s *stride) judgeTrip(of *subject, t *trip) {
	added := 0
	for _, l := range t.ins {
		if !l.merged {
			added++
		}
	}
	before := of.copies - added + len(t.outs)
	if of.named && (len(t.ins) > 1 || len(t.outs) > 1 || (before > 0 && added > len(t.outs))) {
		s.judgeTwins(of, t, before)
		return
	}
	for len(t.outs) > 0 || len(t.ins) > 0 {
		c := &crossing{stride: s, of: of}
		if len(t.outs) > 0 {
			c.out, t.outs = t.outs[0], t.outs[1:]
		}
		if len(t.ins) > 0 {
			c.in, t.ins = t.ins[0], t.ins[1:]
		}
		c.judge()
	}
}

// judgeTwins reports a job that has become two, or was two and became less.
func (s *stride) judgeTwins(of *subject, t *trip, before int) {
	from, to := "", ""
	for _, l := range t.outs {
		from += " " + l.place().String()
	}
	for _, l := range t.ins {
		to += " " + l.place().String()
	}
	switch {
	case of.copies > before && s.allowed(t):
	case of.copies > before:
		s.violate(of, Doubled, "it lies in %d places: out of [%s ] it came into [%s ]", of.copies, from, to)
	case of.copies < before && of.copies == 0:
		s.violate(of, Lost, "%d copies left [%s ] and came into [%s ]", before, from, to)
	default:
		s.violate(of, IllegalEdge, "not one move: out of [%s ] and into [%s ]", from, to)
	}
	for n := of.copies - before; n > 0; n-- {
		s.k.report.Accepted++
		s.note(of, Edge{Nowhere, t.ins[len(t.ins)-1].place(), Doubling})
	}
	for n := before - of.copies; n > 0; n-- {
		s.k.report.Lost++
		s.note(of, Edge{t.outs[len(t.outs)-1].place(), Nowhere, Missing})
	}
}

// allowed reports whether a second copy came to where the test may put jobs.
func (s *stride) allowed(t *trip) bool {
	return !slices.ContainsFunc(t.ins, func(l leg) bool { return !s.k.allow[way{Nowhere, l.place()}] })
}

// judge judges one crossing.
func (c *crossing) judge() {
	w := way{c.out.place(), c.in.place()}
	if w.from == Nowhere && c.in.merged {
		w.from = c.in.place() // only its score has changed
	}
	if w.from == Nowhere && c.of.abroad != nil {
		c.returns(w.to)
		return
	}
	if w.to == Nowhere && c.emigrates(w.from) {
		return
	}
	if c.k.allow[w] {
		c.tally(Edge{w.from, w.to, Allowed})
		return
	}
	law := laws[w]
	if byHand := acts[w]; c.k.acts && byHand != nil && c.byHand() {
		law = byHand
	}
	if law == nil {
		if w.to == Nowhere {
			c.fail(Lost, "%s took it out of %s, and it is nowhere", c.out.verb, c.out.at.key)
			c.tally(Edge{w.from, w.to, Missing})
			return
		}
		c.fail(IllegalEdge, "from %s to %s there is no way", w.from, w.to)
		c.tally(Edge{w.from, w.to, Illegal})
		return
	}
	c.tally(Edge{w.from, w.to, law(c)})
}

func (c *crossing) fail(rule Rule, format string, args ...any) {
	c.violate(c.of, rule, format, args...)
}

// tally counts an edge.
func (c *crossing) tally(e Edge) {
	r := &c.k.report
	switch {
	case e.From == Nowhere:
		r.Accepted++
	case e.To != Nowhere:
	case e.Move == Ended:
		r.Done++
	case e.Move == Trimmed:
		r.Trimmed++
	case e.Move == Missing:
		r.Lost++
	default:
		r.Deleted++
	}
	if c.in.merged && e.From != e.To {
		r.Merged++
	}
	c.note(c.of, e)
}

// exits are the ends of runs in one step, as they must be counted.
type exits struct {
	// ended are the runs after which the job was gone. Whether one of them failed too (a job that is not to
	// be kept) only the counter tells.
	ended int
	// failed are those that went to the retry set or to the dead set: of their failure, of a crash too many,
	// or unread.
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
