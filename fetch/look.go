package fetch

import (
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// Replies get lost, and with them the knowledge of jobs that already lie in our lists. A look compares the lists with
// what is in hand. A difference alone proves nothing: a take or a settle may be under way. An entry is a stray, and is
// adopted, when two looks did not know it, everything that could have brought it before the first had ended before the
// second, and it was in hand at no time between.
type strays struct {
	suspected map[string]map[string]*stray // by queue and bytes
	readings  map[string]*reading          // by queue, those under way
	toRead    []*reading                   // those whose next page is to be read
	found     []foundStray                 // proven, waiting for an idle processor
}

type stray struct {
	count int
	after int64 // operations below this number were under way at the first look
}

// A reading goes through one list page by page: it may be longer than any one answer. Entries move while it does, so one
// may be met on two pages; each page is compared for itself.
type reading struct {
	queue     string
	first     int   // index of the next page
	oldest    int64 // the oldest operation under way when the first page was asked for
	strangers map[string]int
}

type foundStray struct{ queue, bytes string }

func newStrays() *strays {
	return &strays{suspected: make(map[string]map[string]*stray), readings: make(map[string]*reading)}
}

func (s *strays) forget() { *s = *newStrays() }

// waiting is how many strays will want a processor.
func (s *strays) waiting() int { return len(s.found) }

// known says that bytes of queue came into hand by another way.
func (s *strays) known(queue, bytes string) {
	if len(s.suspected) > 0 {
		delete(s.suspected[queue], bytes)
	}
	if under := s.readings[queue]; under != nil {
		delete(under.strangers, bytes)
	}
}

// read begins to read the list of queue, unless that is being done.
func (s *strays) read(queue string) {
	if s.readings[queue] == nil {
		s.readings[queue] = &reading{queue: queue, strangers: make(map[string]int)}
		s.toRead = append(s.toRead, s.readings[queue])
	}
}

// A lookAsk is what one pipeline reads of our lists.
type lookAsk struct {
	life    *Life
	lists   *lua.Ask[[]int]
	queues  []string    // of lists
	paused  driver.Call // goes with lists
	entries []lua.Ask[[]string]
	reads   []*reading // of entries
}

// composeLook adds the reading of our lists to a pipeline, when it is time.
func (f *Fetcher) composeLook() *lookAsk {
	if f.life == nil || f.life.Over() || (!f.look && len(f.strays.toRead) == 0) {
		return nil
	}
	ask := &lookAsk{life: f.life}
	for _, read := range f.strays.toRead {
		if read.first == 0 {
			read.oldest = f.oldest()
		}
		ask.reads = append(ask.reads, read)
		ask.entries = append(ask.entries, f.cfg.Keys.Entries(read.queue, f.life.Identity, read.first, f.cfg.Largest))
	}
	f.strays.toRead = nil
	if f.look {
		f.look = false
		ask.queues = f.cfg.Order.Names()
		lengths := lua.Lengths(f.cfg.Keys.WorkingLists(ask.queues, f.life.Identity))
		ask.lists = &lengths
		ask.paused = driver.Command(append([]string{"SMISMEMBER", f.cfg.Keys.Paused()}, ask.queues...)...)
	}
	return ask
}

func (l *lookAsk) calls() []driver.Call {
	var calls []driver.Call
	for _, ask := range l.entries {
		calls = append(calls, ask.Call)
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
		entries, err := ask.Read(replies[i])
		if err != nil {
			delete(f.strays.readings, l.reads[i].queue)
			f.fail("look", err)
			whole = false
			continue
		}
		f.compare(l.reads[i], entries)
	}
	if l.lists == nil {
		return whole
	}
	replies = replies[len(l.entries):]
	lengths, err := l.lists.Read(replies[0])
	if err != nil {
		f.fail("look", err)
		return false
	}
	f.handleLengths(l.queues, lengths)
	f.handlePaused(l.queues, replies[1])
	return whole
}

// handleLengths asks for the entries of lists that do not hold as many jobs as we do.
func (f *Fetcher) handleLengths(queues []string, lengths []int) {
	inHand := make(map[string]int, len(queues))
	for _, held := range f.life.held {
		inHand[held.Queue]++
	}
	for i, queue := range queues {
		if lengths[i] > 0 && (lengths[i] != inHand[queue] || len(f.strays.suspected[queue]) > 0) {
			f.strays.read(queue)
		} else {
			delete(f.strays.suspected, queue)
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
func (f *Fetcher) compare(read *reading, page []string) {
	strangers, bytes := make(map[string]int), 0
	for _, entry := range page {
		strangers[entry]++
		bytes += len(entry)
	}
	for _, held := range f.life.held {
		if held.Queue == read.queue {
			strangers[held.Bytes]--
		}
	}
	for _, proven := range f.strays.found {
		if proven.queue == read.queue {
			strangers[proven.bytes]--
		}
	}
	for entry, count := range strangers {
		if count > read.strangers[entry] {
			read.strangers[entry] = count
		}
	}
	if len(page) == lua.MostItems || bytes >= lua.MostBytes {
		read.first += len(page)
		f.strays.toRead = append(f.strays.toRead, read)
		return
	}
	delete(f.strays.readings, read.queue)
	f.judge(read)
}

// judge says which strangers of a whole list are strays.
func (f *Fetcher) judge(read *reading) {
	before := f.strays.suspected[read.queue]
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
			f.strays.found = append(f.strays.found, foundStray{queue: read.queue, bytes: bytes})
		}
	}
	delete(f.strays.suspected, read.queue)
	if len(now) > 0 {
		f.strays.suspected[read.queue] = now
		// A wait that was parked before the first look could have brought it: ended, it cannot be what we wait for.
		f.waits.release(map[string]bool{read.queue: true})
	}
}

// adopt brings proven strays into hand, as many as there are idle processors.
func (f *Fetcher) adopt() {
	// A process that has gone quiet hands them back, which arrive sees to.
	for len(f.strays.found) > 0 && (f.quiet || f.idle() > 0) && f.life.Leased() {
		found := f.strays.found[0]
		f.strays.found = f.strays.found[1:]
		held := f.arrive(f.life, found.queue, found.bytes, true)
		f.cfg.Log.Info().Str("jid", held.JID()).Str("queue", held.Queue).
			Msg("adopted: the job was taken, but the answer that said so was lost")
	}
}
