package fetch

import (
	"slices"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// Replies get lost, and with them the knowledge of jobs that already lie in our lists. A look compares the lists with
// what is in hand. A difference alone proves nothing: a take or a settle may be under way. An entry is a stray, and is
// adopted, when two looks did not know it, everything that could have brought it before the first had ended before the
// second, and it was in hand at no time between.
type strays struct {
	suspected  map[place]map[string]*stray // by place and bytes
	readings   map[place]*reading          // by place, those under way
	toRead     []*reading                  // those whose next page is to be read
	found      []foundStray                // proven, waiting for an idle processor
	aloneQueue string                      // where the suspect came from that was found in our alone list
}

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
		return f.cfg.Keys.Alone(f.life.Identity)
	}
	return f.cfg.Keys.Working(at.queue, f.life.Identity)
}

type stray struct {
	count int
	after int64 // operations below this number were under way at the first look
}

// A reading goes through one list page by page: it may be longer than any one answer. Entries move while it does, so one
// may be met on two pages; each page is compared for itself.
type reading struct {
	place     place
	first     int   // index of the next page
	oldest    int64 // the oldest operation under way when the first page was asked for
	strangers map[string]int
}

type foundStray struct {
	place place
	bytes string
}

func newStrays() *strays {
	return &strays{suspected: make(map[place]map[string]*stray), readings: make(map[place]*reading)}
}

func (s *strays) forget() { *s = *newStrays() }

// waiting is how many strays will want a processor.
func (s *strays) waiting() int { return len(s.found) }

// foundAlone says whether a suspect is among the proven strays.
func (s *strays) foundAlone() bool {
	return slices.ContainsFunc(s.found, func(found foundStray) bool { return found.place.alone })
}

// known says that the bytes at a place came into hand by another way.
func (s *strays) known(at place, bytes string) {
	if len(s.suspected) > 0 {
		delete(s.suspected[at], bytes)
	}
	if under := s.readings[at]; under != nil {
		delete(under.strangers, bytes)
	}
}

// read begins to read the list at a place, unless that is being done.
func (s *strays) read(at place) {
	if s.readings[at] == nil {
		s.readings[at] = &reading{place: at, strangers: make(map[string]int)}
		s.toRead = append(s.toRead, s.readings[at])
	}
}

// A lookAsk is what one pipeline reads of our lists.
type lookAsk struct {
	life    *Life
	lists   *lua.Ask[[]int]
	queues  []string    // of lists
	paused  driver.Call // goes with lists
	entries []lua.Ask[lua.Listed]
	reads   []*reading  // of entries
	alone   driver.Call // the queue of the suspect, when one of reads is of the alone list
}

// addLook adds the reading of our lists to a pipeline, when it is time. first says that nothing is in the pipeline that would
// tell whether Redis is there.
func (f *Fetcher) addLook(x *exchange, first bool) {
	if f.life == nil || f.life.Over() || (!f.look && len(f.strays.toRead) == 0) {
		return
	}
	ask := &lookAsk{life: f.life}
	for _, read := range f.strays.toRead {
		if read.first == 0 {
			read.oldest = f.oldest()
		}
		ask.reads = append(ask.reads, read)
		ask.entries = append(ask.entries, f.cfg.Keys.Entries(f.listAt(read.place), read.first, lua.MostBytes, f.cfg.Largest))
		if read.place.alone {
			ask.alone = f.cfg.Keys.AloneQueue(f.life.Identity)
		}
	}
	f.strays.toRead = nil
	if f.look {
		f.look = false
		ask.queues = f.cfg.Order.Names()
		lengths := lua.Lengths(f.listsToSee(ask.queues))
		ask.lists = &lengths
		ask.paused = driver.Command(append([]string{"SMISMEMBER", f.cfg.Keys.Paused()}, ask.queues...)...)
	}
	x.addAll(ask.calls(), func(replies []driver.Reply) {
		if ask.handle(f, replies) && first {
			f.succeed() // a look alone is what tries Redis again
		}
	})
}

// listsToSee are those that a look reads the lengths of: our hands, and then the suspects of each queue.
func (f *Fetcher) listsToSee(queues []string) []string {
	return append(f.cfg.Keys.HandsOf(queues, f.life.Identity), f.cfg.Keys.SuspectsLists(queues)...)
}

func (l *lookAsk) calls() []driver.Call {
	var calls []driver.Call
	for _, ask := range l.entries {
		calls = append(calls, ask.Call)
	}
	if len(l.alone.Args) > 0 {
		calls = append(calls, l.alone)
	}
	if l.lists != nil {
		calls = append(calls, l.lists.Call, l.paused)
	}
	return calls
}

// handle takes in what was read, and says whether all of it could be.
func (l *lookAsk) handle(f *Fetcher, replies []driver.Reply) bool {
	if l.life != f.life {
		return false
	}
	whole := true
	for i, ask := range l.entries {
		listed, err := ask.Read(replies[i])
		if err != nil {
			delete(f.strays.readings, l.reads[i].place)
			f.fail("look", err)
			whole = false
			continue
		}
		f.tooLarge(f.life, l.reads[i].place, listed.Large...)
		f.compare(l.reads[i], listed)
	}
	replies = replies[len(l.entries):]
	if len(l.alone.Args) > 0 {
		var err error
		if f.strays.aloneQueue, err = lua.AloneQueueOf(replies[0]); err != nil {
			delete(f.strays.readings, place{alone: true})
			whole = false
		}
		replies = replies[1:]
	}
	if l.lists == nil {
		return whole
	}
	lengths, err := l.lists.Read(replies[0])
	if err != nil {
		f.fail("look", err)
		return false
	}
	hands := len(l.queues) + 1
	f.handleLengths(l.queues, lengths[:hands])
	f.handlePaused(l.queues, replies[1])
	f.meet(l.queues, lengths[hands:])
	return whole
}

// handleLengths asks for the entries of lists that do not hold as many jobs as we do: those of the queues, and the alone
// list.
func (f *Fetcher) handleLengths(queues []string, lengths []int) {
	inHand := make(map[place]int, len(lengths))
	for _, held := range f.life.held {
		inHand[held.place()]++
	}
	for i, length := range lengths {
		at := place{alone: true}
		if i < len(queues) {
			at = place{queue: queues[i]}
		}
		if at.alone && !f.suspects.asking {
			f.suspects.doubt = length > 0 && inHand[at] == 0 && !f.strays.foundAlone()
		}
		if length > 0 && (length != inHand[at] || len(f.strays.suspected[at]) > 0) {
			f.strays.read(at)
		} else {
			delete(f.strays.suspected, at)
		}
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

// compare notes the strangers on one page, and judges when it was the last.
func (f *Fetcher) compare(read *reading, page lua.Listed) {
	strangers, bytes := make(map[string]int), 0
	for _, entry := range page.Entries {
		strangers[entry]++
		bytes += len(entry)
	}
	for _, large := range page.Large {
		bytes += large.Bytes
	}
	for _, held := range f.life.held {
		if held.place() == read.place {
			strangers[held.Bytes]--
		}
	}
	for _, proven := range f.strays.found {
		if proven.place == read.place {
			strangers[proven.bytes]--
		}
	}
	for entry, count := range strangers {
		if count > read.strangers[entry] {
			read.strangers[entry] = count
		}
	}
	if len(page.Entries) == lua.MostItems || bytes >= lua.MostBytes {
		read.first += len(page.Entries) + len(page.Large)
		f.strays.toRead = append(f.strays.toRead, read)
		return
	}
	delete(f.strays.readings, read.place)
	f.judge(read)
}

// judge says which strangers of a whole list are strays.
func (f *Fetcher) judge(read *reading) {
	before := f.strays.suspected[read.place]
	now := make(map[string]*stray)
	for bytes, count := range read.strangers {
		first := before[bytes]
		if first == nil || first.count < count {
			now[bytes] = &stray{count: count, after: f.nextOp + 1}
			continue
		}
		if read.oldest < first.after {
			now[bytes] = first
			continue
		}
		for range count {
			f.strays.found = append(f.strays.found, foundStray{place: read.place, bytes: bytes})
		}
	}
	delete(f.strays.suspected, read.place)
	if len(now) > 0 {
		f.strays.suspected[read.place] = now
		// A wait that was parked before the first look could have brought it: ended, it cannot be what we wait for.
		f.waits.release(map[string]bool{read.place.queue: true})
	}
}

// adopt brings proven strays into hand, as many as there are idle processors; a suspect once nothing else is in hand.
func (f *Fetcher) adopt() {
	var rest []foundStray
	for _, found := range f.strays.found {
		// A process that has gone quiet hands them back, which arrive sees to.
		mayArrive := f.life.Leased() && (f.quiet || f.idle() > 0)
		wanted := true
		if found.place.alone {
			mayArrive = f.life.Leased() && f.strays.aloneQueue != ""
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
			held = f.arrive(f.life, found.place.queue, found.bytes, true)
		}
		f.cfg.Log.Info().Str("jid", held.JID()).Str("queue", held.Queue).
			Msg("adopted: the job was taken, but the answer that said so was lost")
	}
	f.strays.found = rest
}
