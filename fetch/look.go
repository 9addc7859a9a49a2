package fetch

import (
	"slices"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// Replies get lost, and with them the knowledge of jobs that already lie in our lists. A look compares the lists' lengths
// with what is in hand, and where they differ reads the entries. A difference alone proves nothing: a take or a settle may be
// under way. So while it is unsure what the lists hold nothing is begun that brings jobs, and entries are read only once
// nothing is under way that may. An entry that is then neither in hand, nor has been since the question, was brought by
// something that has ended, and its answer was lost: it is a stray. Lengths are the first look that does not know it, the page
// the second; a page is as large as the link allows, and what it has shown stays known if the next one fails.
type strays struct {
	unsure   bool               // our lists may hold jobs that we do not know of: nothing more is taken
	looked   bool               // since then the lengths were read with nothing under way
	asking   bool               // lengths are being read
	doubts   int                // looks in a row whose difference may be what a take was just bringing
	readings map[place]*reading // those that are not done
	toRead   []*reading         // those of them whose next page is to be asked for
	found    []foundStray       // strays that are not in hand yet
	// aloneQueue is where the suspect came from that was found in our alone list.
	aloneQueue string
}

// mostDoubts is how many looks in a row may differ by what takes under way may be bringing. A busy process has one under way at
// nearly every look, and does not stop for each; what is lost without a failed call (there should be no such thing) is found in
// a dozen seconds.
const mostDoubts = 8

// A place is one of our lists: a queue's working list, or the alone list, which belongs to none.
type place struct {
	queue string
	alone bool
}

func (h *Held) place() place {
	if h.alone {
		return place{alone: true}
	}
	return place{queue: h.Queue}
}

func (f *Fetcher) listAt(at place) string {
	if at.alone {
		return f.cfg.Keys.QuarantineRun(f.life.Identity)
	}
	return f.cfg.Keys.Working(at.queue, f.life.Identity)
}

// A reading goes through one list page by page, newest entries first, where the strays of a take that has just failed are: it
// ends when as many have been found as there can be. Entries move while it does, so one may be met on two pages; each page is
// compared for itself.
type reading struct {
	place place
	first int            // index of the next page
	most  int            // how many strays there may be on the pages to come
	left  map[string]int // what has left our hands since the page was asked for
}

type foundStray struct {
	place place
	bytes string
}

func newStrays() *strays { return &strays{readings: make(map[place]*reading)} }

func (s *strays) forget() { *s = *newStrays() }

// waiting is how many strays will want a processor.
func (s *strays) waiting() int { return len(s.found) }

// foundAlone says whether a suspect is among the strays.
func (s *strays) foundAlone() bool {
	return slices.ContainsFunc(s.found, func(found foundStray) bool { return found.place.alone })
}

// letGo takes a job out of hand that has left its list: a page that was asked for before may still show it.
func (f *Fetcher) letGo(held *Held) {
	if under := f.strays.readings[held.place()]; under != nil && held.owner == f.life {
		under.left[held.Bytes]++
	}
	held.owner.left++
	held.owner.drop(held)
}

// read begins to read the list at a place, unless that is being done.
func (s *strays) read(at place, most int) {
	if s.readings[at] == nil {
		s.readings[at] = &reading{place: at, most: most, left: make(map[string]int)}
		s.toRead = append(s.toRead, s.readings[at])
	}
}

// doubt notes that the lists of a life may hold jobs that are not known. An error that is certain brought none.
func (f *Fetcher) doubt(life *Life, err error) {
	if life == f.life && (err == nil || !driver.Certain(err)) {
		f.strays.unsure, f.strays.looked = true, false
	}
}

// believe ends the doubt when everything that our lists hold is in hand.
func (f *Fetcher) believe() {
	s := f.strays
	if s.unsure && s.looked && len(s.readings) == 0 && len(s.found) == 0 {
		s.unsure, s.doubts, f.dry = false, 0, false
	}
}

// addLengths adds the reading of our lists' lengths to a pipeline, when it is time.
func (f *Fetcher) addLengths(x *exchange) {
	again := f.strays.unsure && !f.strays.looked && len(f.takes) == 0
	if f.life == nil || f.life.Over() || f.strays.asking || (!f.look && !again) {
		return
	}
	life, queues, op, left := f.life, f.cfg.Order.Names(), f.nextOp, f.life.left
	still := len(f.takes) == 0
	f.look, f.strays.asking = false, true
	lengths := lua.Lengths(f.listsToSee(queues))
	paused := driver.Command(append([]string{"SMISMEMBER", f.cfg.Keys.Paused()}, queues...)...)
	x.addAll([]driver.Call{lengths.Call, paused}, func(replies []driver.Reply) {
		if life != f.life {
			return
		}
		f.strays.asking = false
		answer, err := lengths.Read(replies[0])
		if err != nil {
			f.fail("look", err)
			return
		}
		hands := len(queues) + 1
		f.handleLengths(queues, answer[:hands], still && op == f.nextOp, f.life.left-left)
		f.handlePaused(queues, replies[1])
		f.meet(queues, answer[hands:])
		if x.small {
			f.probed(time.Now())
		}
	})
}

// listsToSee are those that a look reads the lengths of: our hands, and then the suspects of each queue.
func (f *Fetcher) listsToSee(queues []string) []string {
	return append(f.cfg.Keys.ListsOf(queues, f.life.Identity), f.cfg.Keys.QuarantineLists(queues)...)
}

// handleLengths compares our lists, those of the queues and the alone list, with what is in hand. still says that nothing which
// brings jobs was under way from the question to the answer, left how many left our hands meanwhile.
func (f *Fetcher) handleLengths(queues []string, lengths []int, still bool, left int) {
	known, sure := make(map[place]int, len(lengths)), make(map[place]int, len(lengths))
	for _, held := range f.life.held {
		known[held.place()]++
		if held.phase != phaseSent {
			sure[held.place()]++ // the others' settles may have taken them out
		}
	}
	s, more, fewer := f.strays, false, false
	for i, length := range lengths {
		at := place{alone: true}
		if i < len(queues) {
			at = place{queue: queues[i]}
		}
		if at.alone && !f.suspects.asking {
			f.suspects.doubt = length > 0 && known[at] == 0 && !s.foundAlone()
		}
		switch {
		case length <= 0 || length == sure[at]:
		case s.unsure && still && length > sure[at]:
			s.read(at, length-sure[at])
		case s.unsure && still:
			s.read(at, length) // Redis has lost some, and there may be strays among the others
		default:
			more, fewer = more || length > known[at]+left, fewer || length < sure[at]
		}
	}
	switch {
	case s.unsure:
		s.looked = s.looked || still
	case !more && !fewer:
		s.doubts = 0
	case s.doubts >= mostDoubts || (more && f.promised == 0):
		f.doubt(f.life, nil)
	default:
		s.doubts++
	}
}

// handlePaused takes note of pauses, so that a wait parked on a queue that is now paused is released, and a queue that
// is no longer paused is looked at.
func (f *Fetcher) handlePaused(queues []string, reply driver.Reply) {
	flags, ok := reply.Value.([]any)
	if !ok || len(flags) != len(queues) {
		return // the next take tells
	}
	for i, queue := range queues {
		paused := flags[i] == int64(1)
		if f.paused[queue] && !paused {
			f.dry = false
			delete(f.paused, queue)
		} else if paused {
			f.paused[queue] = true
		}
	}
}

// addReading adds the next page of a list that is being read: one in a pipeline, and none while anything is under way that may
// bring a job.
func (f *Fetcher) addReading(x *exchange) {
	s := f.strays
	if len(s.toRead) == 0 || len(f.takes) > 0 || f.life.Over() {
		return
	}
	life, op, read, page := f.life, f.nextOp, s.toRead[0], f.pace.Page()
	s.toRead = s.toRead[1:]
	clear(read.left)
	ask := f.cfg.Keys.Entries(f.listAt(read.place), read.first, page, f.cfg.Largest)
	calls := []driver.Call{ask.Call}
	if read.place.alone {
		calls = append(calls, f.cfg.Keys.QuarantinedFrom(life.Identity))
	}
	x.may += page + f.cfg.Largest
	x.addAll(calls, func(replies []driver.Reply) {
		if life != f.life {
			return
		}
		listed, err := ask.Read(replies[0])
		if err == nil && read.place.alone {
			s.aloneQueue, err = lua.QuarantinedFromOf(replies[1])
		}
		switch {
		case err != nil && !driver.Outage(err):
			delete(s.readings, read.place)
			f.fail("look", err)
		case err != nil:
			s.toRead = append(s.toRead, read) // what the pages before have shown is kept
			f.fail("look", err)
		case op != f.nextOp:
			s.toRead = append(s.toRead, read) // what has begun since may have brought some of it
		default:
			f.succeed()
			f.tooLarge(life, read.place, listed.Large...)
			f.compare(read, listed, page)
		}
	})
}

// compare finds the strays on one page, and goes on to the next where there may be more.
func (f *Fetcher) compare(read *reading, listed lua.Listed, page int) {
	entries := listed.Entries
	strangers, bytes := make(map[string]int), 0
	for _, large := range listed.Large {
		bytes += large.Bytes
	}
	for _, entry := range entries {
		strangers[entry]++
		bytes += len(entry)
	}
	for _, held := range f.life.held {
		if held.place() == read.place {
			strangers[held.Bytes]--
		}
	}
	for _, found := range f.strays.found {
		if found.place == read.place {
			strangers[found.bytes]--
		}
	}
	for _, entry := range slices.Backward(entries) { // the oldest first
		if strangers[entry]-read.left[entry] > 0 {
			strangers[entry]--
			read.most--
			f.strays.found = append(f.strays.found, foundStray{place: read.place, bytes: entry})
		}
	}
	read.most -= len(listed.Large) // they are on their way to the dead set
	if read.most > 0 && (len(entries) == lua.MostItems || bytes >= page) {
		read.first += len(entries) + len(listed.Large)
		f.strays.toRead = append(f.strays.toRead, read)
		return
	}
	delete(f.strays.readings, read.place)
}

// adopt brings strays into hand. One for which no processor is idle goes straight back, as what an idle wait brought does: a
// process on a slow link gives way to those that have room. A suspect is adopted once nothing else is in hand.
func (f *Fetcher) adopt() {
	var rest []foundStray
	for _, found := range f.strays.found {
		mayArrive, wanted := f.life.Leased(), f.idle() > 0
		if found.place.alone {
			mayArrive = mayArrive && f.strays.aloneQueue != ""
			wanted = f.hasProcess() && len(f.life.held) == 0 && f.running == 0 && f.promised == 0 && f.waits.open() == 0
		} else if !f.quiet {
			mayArrive = mayArrive && f.life.alone == nil && !f.suspects.asking && f.mayTake()
		}
		if !mayArrive {
			rest = append(rest, found)
			continue
		}
		var held *Held
		if found.place.alone {
			held = f.arriveAlone(f.life, f.strays.aloneQueue, found.bytes, wanted)
		} else {
			held = f.arrive(f.life, found.place.queue, found.bytes, wanted)
		}
		f.cfg.Log.Info().Str("jid", held.JID()).Str("queue", held.Queue).Bool("runs_here", wanted).
			Msg("adopted: the job was taken, but the answer that said so was lost")
	}
	f.strays.found = rest
	f.believe()
}
