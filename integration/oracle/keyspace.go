package oracle

import (
	"encoding/json"
	"hash/maphash"
	"strings"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A keyspace is everything under one prefix, as it is after the steps read so far.
type keyspace struct {
	*replay
	prefix    string
	keys      lua.Keys
	spots     map[string]*spot    // by key
	jobs      map[string]*subject // by jid, or by text
	workings  map[string]hand     // by key: nothing is parsed out of a name
	processes map[string]*process // by identity
	damaged   map[string]bool     // counters that are no numbers
	locks     map[string]*lock    // by digest
	holders   map[string]*lock    // by their owner's jid
	listed    map[string]float64  // the index of locks: until when
	ended     recently
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
	// damaged is set while the key is of another type, made so by a test; no job is in it
	// then.
	damaged bool
}

func (s *spot) len() int {
	if s.place.sorted() {
		return len(s.set)
	}
	return s.list.len()
}

// entries are all copies in it.
func (s *spot) entries() []*entry {
	var found []*entry
	for i := range s.list.len() {
		found = append(found, s.list.at(i))
	}
	for _, e := range s.set {
		found = append(found, e)
	}
	return found
}

func newKeyspace(r *replay, prefix string) *keyspace {
	k := &keyspace{replay: r, prefix: prefix, keys: lua.NewKeys(strings.TrimSuffix(prefix, ":"))}
	k.workings, k.processes = make(map[string]hand), make(map[string]*process)
	k.forget()
	return k
}

// forget is FLUSHALL: only the names of working lists are remembered, for a move that was parked before it may
// still come.
func (k *keyspace) forget() {
	k.spots, k.jobs = make(map[string]*spot), make(map[string]*subject)
	k.damaged = make(map[string]bool)
	k.locks, k.holders, k.listed = make(map[string]*lock), make(map[string]*lock), make(map[string]float64)
	k.ended = recently{}
	for _, p := range k.processes {
		*p = process{identity: p.identity, queues: p.queues}
	}
}

// spot is what a key is to jobs; nil for a key that holds none.
func (k *keyspace) spot(key string) *spot {
	if s := k.spots[key]; s != nil {
		return s
	}
	name, ours := strings.CutPrefix(key, k.prefix)
	if !ours {
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
	case strings.HasPrefix(name, "belay:suspects:"):
		s.place, s.queue = Quarantine, strings.TrimPrefix(name, "belay:suspects:")
	case strings.HasPrefix(name, "belay:alone:"):
		s.place, s.identity = Alone, strings.TrimPrefix(name, "belay:alone:")
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
		k.ended.add(s.jid)
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
	alone           string
	emptiedAt       int     // the step in which its lists were found empty after its end; 0 for not yet
	tombstoned      bool    // it is gone for good
	forgotten       bool    // and so is its tombstone
	expiry, before  float64 // until when it is alive, now and before the step in which that last changed
	expiryChangedAt int
	beats           [keptBeats]float64 // when it beat, the last ones, by Redis' clock in ms
	beat            int                // how many it beat in all
	claimant        string             // who last claimed to recover it
}

// keptBeats is more beats than a process makes between two looks.
const keptBeats = 16

// beatAt notes a beat.
func (p *process) beatAt(ms float64) {
	p.beats[p.beat%keptBeats] = ms
	p.beat++
}

// firstBeatFrom is its first beat at or after an instant, and how many there were; ok is false when that is not
// known any more.
func (p *process) firstBeatFrom(ms float64) (first float64, count int, ok bool) {
	for n := max(p.beat-keptBeats, 0); n < p.beat; n++ {
		if at := p.beats[n%keptBeats]; at >= ms {
			if count == 0 {
				first = at
			}
			count++
		}
	}
	return first, count, count < keptBeats
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

// serve notes the queues of a process, and with them the names of its lists.
func (k *keyspace) serve(p *process, queuesJSON string) {
	if json.Unmarshal([]byte(queuesJSON), &p.queues) != nil {
		return // its lists stay unknown, and what comes into them is reported
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

// recently remembers so many jids of jobs that have ended, to know one that comes again; more would be memory
// without end.
type recently struct {
	known map[uint64]bool
	ring  []uint64
	next  int
}

const remembered = 1 << 17

var seed = maphash.MakeSeed()

func (r *recently) add(jid string) {
	if r.known == nil {
		r.known = make(map[uint64]bool)
	}
	hash := maphash.String(seed, jid)
	if len(r.ring) < remembered {
		r.ring = append(r.ring, hash)
	} else {
		delete(r.known, r.ring[r.next])
		r.ring[r.next] = hash
		r.next = (r.next + 1) % remembered
	}
	r.known[hash] = true
}

func (r *recently) has(jid string) bool { return r.known[maphash.String(seed, jid)] }
