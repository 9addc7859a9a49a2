package oracle

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A keyspace is everything under one prefix, as it is after the steps read so far.
type keyspace struct {
	*replay
	prefix    string
	keys      lua.Keys
	spots     map[string]*spot     // by key
	jobs      map[string]*subject  // by jid, or by text
	workings  map[string]hand      // by key: nothing is parsed out of a name
	processes map[string]*process  // by identity
	damaged   map[string]bool      // counters that are no numbers
	locks     map[string]*lock     // by digest
	holders   map[string]*lock     // by their owner's jid
	listed    map[string]float64   // the index of locks: until when
	ticks     map[string]time.Time // the last tick of each periodic job
	states    map[string]jobState  // by jid
	batches   map[string]*batch    // by id
	gates     gates
	ended     map[string]bool // the jids of jobs that are gone, to know one that comes again
}

// A hand is what a key of a working list stands for.
type hand struct{ queue, identity string }

// A spot is one key that holds jobs.
type spot struct {
	key             string
	place           Place
	queue, identity string
	list            deque
	set             map[string]*entry
}

func (s *spot) len() int {
	if s.place.sorted() {
		return len(s.set)
	}
	return len(s.list)
}

// entries are all copies in it.
func (s *spot) entries() []*entry {
	return slices.AppendSeq(slices.Clone(s.list), maps.Values(s.set))
}

func newKeyspace(r *replay, prefix string) *keyspace {
	k := &keyspace{replay: r, prefix: prefix, keys: lua.NewKeys(strings.TrimSuffix(prefix, ":"))}
	k.workings, k.processes = make(map[string]hand), make(map[string]*process)
	k.forget()
	return k
}

// forget is FLUSHALL: only the names of working lists are remembered, for a move that was parked before it
// may still come.
func (k *keyspace) forget() {
	k.spots, k.jobs = make(map[string]*spot), make(map[string]*subject)
	k.damaged = make(map[string]bool)
	k.locks, k.holders, k.listed = make(map[string]*lock), make(map[string]*lock), make(map[string]float64)
	k.ended, k.states = make(map[string]bool), make(map[string]jobState)
	k.gates = newGates()
	k.ticks, k.batches = make(map[string]time.Time), make(map[string]*batch)
	for _, p := range k.processes {
		*p = process{identity: p.identity, queues: p.queues}
	}
}

// spot is what a key is to jobs; nil for a key that holds none.
func (k *keyspace) spot(key string) *spot {
	if s := k.spots[key]; s != nil {
		return s
	}
	name, inside := strings.CutPrefix(key, k.prefix)
	if !inside {
		return nil
	}
	s := &spot{key: key}
	switch {
	case key == k.keys.Schedule():
		s.place = Schedule
	case key == k.keys.Retry():
		s.place = Retry
	case key == k.keys.Dead():
		s.place = Dead
	case strings.HasPrefix(name, "queue:"):
		s.place, s.queue = Queue, strings.TrimPrefix(name, "queue:")
	case strings.HasPrefix(name, "belay:quarantine:"):
		s.place, s.queue = Quarantine, strings.TrimPrefix(name, "belay:quarantine:")
	case strings.HasPrefix(name, "belay:quarantine-run:"):
		s.place, s.identity = QuarantineRun, strings.TrimPrefix(name, "belay:quarantine-run:")
	case strings.HasPrefix(name, "belay:waiting:"):
		s.place = Waiting
	case strings.HasPrefix(name, "belay:working:"):
		known, ok := k.workings[key]
		if !ok {
			return nil // see keyspace.unowned
		}
		s.place, s.queue, s.identity = Working, known.queue, known.identity
	default:
		return nil
	}
	if s.place.sorted() {
		s.set = make(map[string]*entry)
	}
	k.spots[key] = s
	return s
}

// entry is a text as an entry of a spot. That of a waiting list begins with the name of a queue.
func (k *keyspace) entry(at *spot, text string) *entry {
	e := &entry{text: text}
	if at.place == Waiting {
		e.queue, e.text, _ = strings.Cut(text, "\n")
	}
	e.of = k.subject(e.text)
	return e
}

// unowned reports whether a key is the working list of a process that never registered it: a job in it is
// lost to every process.
func (k *keyspace) unowned(key string) bool {
	_, known := k.workings[key]
	return !known && strings.HasPrefix(key, k.prefix+"belay:working:")
}

// subject is the job that a text is a copy of.
func (k *keyspace) subject(text string) *subject {
	if raw, _, ok := original(text); ok {
		text = raw
	}
	id, named := text, false
	if parsed, err := job.Parse(text); err == nil {
		id, named = "jid "+parsed.JID(), true
	}
	s := k.jobs[id]
	if s == nil {
		s = &subject{jid: strings.TrimPrefix(id, "jid "), named: named}
		k.jobs[id] = s
	}
	return s
}

// drop forgets a subject that is nowhere.
func (k *keyspace) drop(s *subject) {
	if s.copies > 0 || s.abroad != nil {
		return
	}
	if s.named {
		delete(k.jobs, "jid "+s.jid)
		k.ended[s.jid] = true
		return
	}
	delete(k.jobs, s.jid)
}

// A process is what is known of one identity.
type process struct {
	identity        string
	queues          []string
	known           bool // it has a record
	registeredAt    int  // the step in which it was made
	beatMs, ttlMs   float64
	quarantineQueue string
	emptiedAt       int     // the step in which its lists were found empty after its end; 0 for not yet
	tombstoned      bool    // it is gone for good
	diedAtMs        float64 // by Redis' clock
	forgotten       bool    // and so is its tombstone
	expiry, before  float64 // until when it is alive, now and before the step in which that last changed
	expiryChangedAt int
	beats           []float64 // when it beat, by Redis' clock in ms
	claimant        string    // who last claimed to recover it
}

// beatsFrom are its beats at or after an instant.
func (p *process) beatsFrom(ms float64) []float64 {
	for i, at := range p.beats {
		if at >= ms {
			return p.beats[i:]
		}
	}
	return nil
}

func (k *keyspace) process(identity string) *process {
	p := k.processes[identity]
	if p == nil {
		p = &process{identity: identity}
		k.processes[identity] = p
	}
	return p
}

func (p *process) expires(at float64, step int) {
	if p.expiryChangedAt != step {
		p.before, p.expiryChangedAt = p.expiry, step
	}
	p.expiry = at
}

// expiryBefore is until when it was alive as the step began.
func (p *process) expiryBefore(step int) float64 {
	if p.expiryChangedAt == step {
		return p.before
	}
	return p.expiry
}

// emptiedBefore reports whether its lists had been found empty before this step.
func (p *process) emptiedBefore(step int) bool { return p.emptiedAt != 0 && p.emptiedAt < step }

// serve notes the queues of a process, and with them the names of its lists. A list that it names no more is
// unknown from then on, unless it still has a job.
func (k *keyspace) serve(p *process, queuesJSON string) {
	before := p.queues
	p.queues = nil
	if json.Unmarshal([]byte(queuesJSON), &p.queues) != nil {
		return // its lists stay unknown, and what comes into them is reported
	}
	for _, queue := range before {
		key := k.keys.Working(queue, p.identity)
		if s := k.spots[key]; !slices.Contains(p.queues, queue) && (s == nil || s.len() == 0) {
			delete(k.spots, key)
			delete(k.workings, key)
		}
	}
	for _, queue := range p.queues {
		k.workings[k.keys.Working(queue, p.identity)] = hand{queue, p.identity}
	}
}

// kill forgets a process whose record and tombstone are gone.
func (k *keyspace) kill(p *process) {
	for _, queue := range p.queues {
		key := k.keys.Working(queue, p.identity)
		if s := k.spots[key]; s != nil && s.len() > 0 {
			return
		}
		delete(k.spots, key)
		delete(k.workings, key)
	}
	delete(k.spots, k.keys.QuarantineRun(p.identity))
	delete(k.processes, p.identity)
}
