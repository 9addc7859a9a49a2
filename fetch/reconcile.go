package fetch

import (
	"slices"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// If the reply of a call that brings jobs is lost, jobs are in our lists without being in the ledger.
// Reconciling compares the lengths of the lists with the ledger, and reads the entries where they differ. A
// difference alone proves nothing, because a take or a settle may be in flight. So while the process is
// unsure, it starts no call that brings jobs, and it reads entries only when no such call is in flight. An
// entry is orphaned if it then matches no run in the ledger, and none that has left since the request. So
// each orphaned entry is seen twice, by length and by page. A page is as large as the link allows, and its
// results are kept if the next page fails.
type reconcile struct {
	due             bool                 // the lengths must be read
	asking          bool                 // the call that reads them is in flight
	unsure          bool                 // our lists may hold jobs that are not in the ledger: no more jobs are taken
	looked          bool                 // since unsure was set, the lengths were read with no call in flight
	doubts          int                  // readings in a row whose difference a take in flight may explain
	readings        map[ownList]*reading // readings that have not ended
	toRead          []*reading           // readings whose next page must be requested
	orphaned        []orphan             // orphaned entries that are not runs yet
	quarantinesRead bool                 // the lengths of the quarantines were read since this was last cleared
	// quarantineUnsure reports that our quarantine list may hold a job that is not in the ledger: a reply was
	// lost, or the session ended before the job's start. quarantinedFrom is the queue of the job that was
	// found there.
	quarantineUnsure bool
	quarantinedFrom  string
}

// maxDoubts is after how many readings in a row a difference is examined that a take in flight may explain. A
// busy process has a take in flight at nearly every reading, and must not stop taking jobs each time. So an
// entry that is orphaned without a failed call, which should not happen, is found within a dozen seconds.
const maxDoubts = 8

// A reading reads one list page by page, the newest entries first, because the orphaned entries of a take
// that has just failed are the newest. It ends when no more orphaned entries are possible. Entries move
// meanwhile, so an entry may be on two pages; each page is compared on its own.
type reading struct {
	list        ownList
	first       int            // index of the next page
	maxOrphaned int            // maximum number of orphaned entries on the remaining pages
	left        map[string]int // jobs that have left our lists since the page was requested, by bytes
}

// An orphan is an orphaned entry.
type orphan struct {
	list  ownList
	bytes string
}

func newReconcile() reconcile { return reconcile{readings: make(map[ownList]*reading)} }

// foundQuarantined reports whether a quarantined job is among the orphaned entries.
func (c *reconcile) foundQuarantined() bool {
	return slices.ContainsFunc(c.orphaned, func(o orphan) bool { return o.list.quarantined })
}

// read starts a reading of a list, unless there is one.
func (c *reconcile) read(list ownList, maxOrphaned int) {
	if c.readings[list] == nil {
		c.readings[list] = &reading{list: list, maxOrphaned: maxOrphaned, left: make(map[string]int)}
		c.toRead = append(c.toRead, c.readings[list])
	}
}

// doubt records that the lists of a session may hold jobs that are not in the ledger. After a certain error,
// the call was not executed and brought no jobs.
func (k *Keyspace) doubt(session *Session, err error) {
	k.doubtedAt = time.Now()
	if session == k.session && (err == nil || !driver.Certain(err)) {
		k.reconcile.unsure, k.reconcile.looked = true, false
	}
}

// addLengths adds the reading of our lists' lengths to a pipeline, when it is time.
func (k *Keyspace) addLengths(p *pipeline) {
	c := &k.reconcile
	again := c.unsure && !c.looked && k.operations == 0
	if k.session == nil || k.session.Over() || c.asking || (!c.due && !again) {
		return
	}
	session, queues, op, left := k.session, k.names(), k.lastOp, k.session.left
	still := k.operations == 0
	c.due, c.asking = false, true
	lengths := lua.Lengths(k.listsToSee(session, queues))
	calls := []driver.Call{lengths.Call}
	if len(queues) > 0 {
		calls = append(calls, driver.Command(append([]string{"SMISMEMBER", k.Keys.Paused()}, queues...)...))
	}
	p.addAll(calls, func(replies []driver.Reply) {
		if session != k.session {
			return
		}
		c.asking = false
		answer, err := lengths.Read(replies[0])
		if err != nil {
			k.fail(err)
			return
		}
		ownLists := len(queues) + 1
		k.handleLengths(queues, answer[:ownLists], still && op == k.lastOp, session.left-left)
		if len(queues) > 0 {
			k.handlePaused(queues, replies[1])
		}
		k.handleQuarantines(queues, answer[ownLists:])
		if p.small {
			k.probed()
		}
	})
}

// listsToSee returns the lists whose lengths are read: ours, and then the quarantine of each queue.
func (k *Keyspace) listsToSee(session *Session, queues []string) []string {
	return append(k.Keys.ListsOf(queues, session.Identity), k.Keys.QuarantineLists(queues)...)
}

// handleLengths compares our lists, those of the queues and the quarantine list, with the ledger. still
// reports that no call that brings jobs was in flight between request and reply; left is the number of jobs
// that left our lists meanwhile.
func (k *Keyspace) handleLengths(queues []string, lengths []int, still bool, left int) {
	known, sure := make(map[ownList]int, len(lengths)), make(map[ownList]int, len(lengths))
	for r := range k.ledger.of(k.session) {
		known[r.ownList()]++
		if r.state != settling && r.state != unacked {
			sure[r.ownList()]++ // the settle of a run in these states may have removed its job
		}
	}
	c, more, fewer := &k.reconcile, false, false
	for i, length := range lengths {
		list := ownList{quarantined: true}
		if i < len(queues) {
			list = ownList{queue: queues[i]}
		}
		if list.quarantined && k.loop.quarantine.asking != k {
			c.quarantineUnsure = length > 0 && known[list] == 0 && !c.foundQuarantined()
		}
		switch {
		case length <= 0 || length == sure[list]:
		case c.unsure && still && length > sure[list]:
			c.read(list, length-sure[list])
		case c.unsure && still:
			c.read(list, length) // Redis has lost some, and others may be orphaned entries
		default:
			more, fewer = more || length > known[list]+left, fewer || length < sure[list]
		}
	}
	switch {
	case c.unsure:
		c.looked = c.looked || still
	case !more && !fewer:
		c.doubts = 0
	case c.doubts >= maxDoubts || (more && k.operations == k.openWaits()): // without a take in flight
		k.doubt(k.session, nil)
	default:
		c.doubts++
	}
}

// handlePaused records which queues are paused. The wait on a queue that is now paused is released, and jobs
// are taken again from a queue that was resumed.
func (k *Keyspace) handlePaused(queues []string, reply driver.Reply) {
	flags, ok := reply.Value.([]any)
	if !ok || len(flags) != len(queues) {
		return // the next take reports paused queues
	}
	for i, queue := range queues {
		q := k.queues[queue]
		if q == nil {
			continue // it was dropped meanwhile
		}
		was := q.paused
		if q.paused = flags[i] == int64(1); was && !q.paused {
			q.intake.empty = false
		}
	}
}

// handleQuarantines records in which queues quarantined jobs wait.
func (k *Keyspace) handleQuarantines(queues []string, waiting []int) {
	for i, queue := range queues {
		if q := k.queues[queue]; q != nil {
			q.quarantined = waiting[i] > 0 && !q.paused && !q.leaving
		}
	}
	k.reconcile.quarantinesRead = true
}

// addReading adds the next page of a reading: one page in a pipeline, and none while a call is in flight that
// may bring a job.
func (k *Keyspace) addReading(p *pipeline) {
	c := &k.reconcile
	if len(c.toRead) == 0 || k.operations > 0 || k.session.Over() {
		return
	}
	session, op, read, page := k.session, k.lastOp, c.toRead[0], k.link.Page()
	c.toRead = c.toRead[1:]
	clear(read.left)
	ask := k.Keys.Entries(k.keyOf(session, read.list), read.first, page, k.cfg.Largest)
	calls, from := []driver.Call{ask.Call}, k.Keys.QuarantinedFrom(session.Identity)
	if read.list.quarantined {
		calls = append(calls, from.Call)
	}
	p.may += page
	p.addAll(calls, func(replies []driver.Reply) {
		if session != k.session {
			return
		}
		listed, err := ask.Read(replies[0])
		if err == nil && read.list.quarantined {
			c.quarantinedFrom, err = from.Read(replies[1])
		}
		switch {
		case err != nil && !driver.Outage(err):
			delete(c.readings, read.list)
			k.fail(err)
		case err != nil:
			c.toRead = append(c.toRead, read) // the results of earlier pages are kept
			k.fail(err)
		case op != k.lastOp:
			c.toRead = append(c.toRead, read) // a call that has begun since may have brought some of these entries
		default:
			k.succeed()
			k.addLarge(session, read.list, listed.Large...)
			k.compare(read, listed, page)
		}
	})
}

// compare finds the orphaned entries of one page, and requests the next page if there may be more.
func (k *Keyspace) compare(read *reading, listed lua.Listed, page int) {
	c, entries := &k.reconcile, listed.Entries
	unknown, bytes := make(map[string]int), 0
	for _, large := range listed.Large {
		bytes += large.Bytes
	}
	for _, entry := range entries {
		unknown[entry]++
		bytes += len(entry)
	}
	for r := range k.ledger.of(k.session) {
		if r.ownList() == read.list {
			unknown[r.Bytes]--
		}
	}
	for _, o := range c.orphaned {
		if o.list == read.list {
			unknown[o.bytes]--
		}
	}
	for _, entry := range slices.Backward(entries) { // the oldest first
		if unknown[entry]-read.left[entry] > 0 {
			unknown[entry]--
			read.maxOrphaned--
			c.orphaned = append(c.orphaned, orphan{list: read.list, bytes: entry})
		}
	}
	read.maxOrphaned -= len(listed.Large) // they are on their way to the dead set
	if read.maxOrphaned > 0 && (len(entries) == lua.MaxItems || bytes >= page) {
		read.first += len(entries) + len(listed.Large)
		c.toRead = append(c.toRead, read)
		return
	}
	delete(c.readings, read.list)
}

// An entry that is too large to run is never in the ledger. It stays in one of our lists, identified by its
// length and its first and last bytes, until a script moves it to the dead set. Its bytes are never sent. If
// the call of that script fails, the list is longer than the ledger says, so the next reading finds the entry
// again.

// addLarge records entries that must be moved to the dead set.
func (k *Keyspace) addLarge(session *Session, list ownList, large ...lua.Large) {
	for _, entry := range large {
		k.large = append(k.large, dedup.TooLarge(entry, k.keyOf(session, list), list.queue, k.cfg.Largest, k.Clock.Now(), k.cfg.Unit))
	}
}

// addTooLarge moves entries that are too large to the dead set, a few at a time, because each move copies many
// bytes within Redis. The last one of a list goes first, so that the positions of the others stay valid.
func (k *Keyspace) addTooLarge(p *pipeline) {
	const maxMoves = 4
	for range min(len(k.large), maxMoves) {
		last := len(k.large) - 1
		calls, read := k.Keys.EndLarge(k.large[last], k.log)
		k.large = k.large[:last]
		p.addAll(calls, func(replies []driver.Reply) {
			if _, err := read(replies[0]); err != nil {
				k.fail(err)
			}
		})
	}
}
