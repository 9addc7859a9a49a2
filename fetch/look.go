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
	toRead    []string                     // queues whose entries are to be read
	found     []foundStray                 // proven, waiting for an idle processor
}

type stray struct {
	count int
	after int64 // operations below this number were under way at the first look
}

type foundStray struct{ queue, bytes string }

func newStrays() *strays { return &strays{suspected: make(map[string]map[string]*stray)} }

func (s *strays) forget() { *s = *newStrays() }

// waiting is how many strays will want a processor.
func (s *strays) waiting() int { return len(s.found) }

// known says that bytes of queue came into hand by another way.
func (s *strays) known(queue, bytes string) {
	if len(s.suspected) > 0 {
		delete(s.suspected[queue], bytes)
	}
}

// A lookAsk is what one pipeline reads of our lists.
type lookAsk struct {
	life    *Life
	lists   *lua.Ask[[]int]
	queues  []string // of lists
	paused  *driver.Call
	entries []lua.Ask[[]string]
	reads   []string // queues of entries
	oldest  int64    // the oldest operation under way when this was sent
}

// composeLook adds the reading of our lists to a pipeline, when it is time.
func (f *Fetcher) composeLook() *lookAsk {
	if f.life == nil || f.life.Over() || (!f.look && len(f.strays.toRead) == 0) {
		return nil
	}
	ask := &lookAsk{life: f.life, oldest: f.oldest()}
	for _, queue := range f.strays.toRead {
		ask.reads = append(ask.reads, queue)
		ask.entries = append(ask.entries, f.cfg.Keys.Entries(queue, f.life.Identity, 0, f.cfg.Largest))
	}
	f.strays.toRead = nil
	if f.look {
		f.look = false
		ask.queues = f.cfg.Order.Names()
		keys := make([]string, len(ask.queues))
		for i, queue := range ask.queues {
			keys[i] = f.cfg.Keys.Working(queue, f.life.Identity)
		}
		lengths := lua.Lengths(keys)
		ask.lists = &lengths
		paused := driver.Command(append([]string{"SMISMEMBER", f.cfg.Keys.Paused()}, ask.queues...)...)
		ask.paused = &paused
	}
	return ask
}

func (l *lookAsk) calls() []driver.Call {
	var calls []driver.Call
	for _, ask := range l.entries {
		calls = append(calls, ask.Call)
	}
	if l.lists != nil {
		calls = append(calls, l.lists.Call, *l.paused)
	}
	return calls
}

func (l *lookAsk) handle(f *Fetcher, replies []driver.Reply) {
	if l.life != f.life {
		return
	}
	for i, ask := range l.entries {
		entries, err := ask.Read(replies[i])
		if err != nil {
			f.fail("look", err)
			continue
		}
		f.compare(l.reads[i], entries, l.oldest)
	}
	if l.lists == nil {
		return
	}
	replies = replies[len(l.entries):]
	lengths, err := l.lists.Read(replies[0])
	if err != nil {
		f.fail("look", err)
		return
	}
	f.handleLengths(l.queues, lengths)
	f.handlePaused(l.queues, replies[1])
}

// handleLengths asks for the entries of lists that do not hold as many jobs as we do.
func (f *Fetcher) handleLengths(queues []string, lengths []int) {
	inHand := make(map[string]int, len(queues))
	for _, held := range f.life.held {
		inHand[held.Queue]++
	}
	for i, queue := range queues {
		if lengths[i] > 0 && (lengths[i] != inHand[queue] || len(f.strays.suspected[queue]) > 0) {
			f.strays.toRead = append(f.strays.toRead, queue)
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

// compare judges the entries of one list, read when the operation numbered oldest was the oldest one under way.
func (f *Fetcher) compare(queue string, entries []string, oldest int64) {
	strangers := make(map[string]int)
	for _, entry := range entries {
		strangers[entry]++
	}
	for _, held := range f.life.held {
		if held.Queue == queue {
			strangers[held.Bytes]--
		}
	}
	for _, proven := range f.strays.found {
		if proven.queue == queue {
			strangers[proven.bytes]--
		}
	}
	before := f.strays.suspected[queue]
	now := make(map[string]*stray)
	for bytes, count := range strangers {
		if count <= 0 {
			continue
		}
		first := before[bytes]
		if first == nil || first.count < count {
			now[bytes] = &stray{count: count, after: f.nextOp + 1}
			continue
		}
		if oldest < first.after {
			now[bytes] = first
			continue
		}
		for range count {
			f.strays.found = append(f.strays.found, foundStray{queue: queue, bytes: bytes})
		}
	}
	delete(f.strays.suspected, queue)
	if len(now) > 0 {
		f.strays.suspected[queue] = now
		// A wait that was parked before the first look could have brought it: ended, it cannot be what we wait for.
		f.waits.release(map[string]bool{queue: true})
	}
}

// adopt brings proven strays into hand, as many as there are idle processors.
func (f *Fetcher) adopt() {
	// A process that has gone quiet hands them back, which arrive sees to.
	for len(f.strays.found) > 0 && (f.quiet || f.idle() > 0) && f.life.Leased() {
		found := f.strays.found[0]
		f.strays.found = f.strays.found[1:]
		f.cfg.Log.Info().Str("jid", jidOf(found.bytes)).Str("queue", found.queue).
			Msg("adopted: the job was taken, but the answer that said so was lost")
		f.arrive(f.life, found.queue, found.bytes)
	}
}
