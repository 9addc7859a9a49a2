package fetch

import (
	"slices"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// Replies get lost, and with them the knowledge of jobs that already lie in our lists. Reconciling compares
// the lists' lengths with the ledger, and where they differ reads the entries. A difference alone proves
// nothing: a take or a settle may be in flight. So while it is unsure what the lists hold nothing is begun
// that brings jobs, and entries are read only once nothing is in flight that may. An entry that is then
// neither a run, nor has been since the question, was brought by something that has ended, and its answer
// was lost: it is orphaned. Lengths are the first reading that does not know it, the page the second; a
// page is as large as the link allows, and what it has shown stays known if the next one fails.
type reconcile struct {
	due             bool               // the lengths must be read
	asking          bool               // they are being read
	unsure          bool               // our lists may hold jobs that are not in the ledger: nothing more is taken
	looked          bool               // since then the lengths were read with nothing in flight
	doubts          int                // readings in a row whose difference may be what a take was just bringing
	readings        map[place]*reading // those that are not done
	toRead          []*reading         // those of them whose next page must be asked for
	orphaned        []orphan           // entries that are not runs yet
	quarantinesRead bool               // it is news which queues have quarantined jobs
	// quarantineUnsure says that our quarantine list may hold a job that is not in the ledger: an answer
	// was lost, or the job had no lease to start with. quarantinedFrom is the queue of the one that was
	// found there.
	quarantineUnsure bool
	quarantinedFrom  string
}

// mostDoubts is how many readings in a row may differ by what takes in flight may be bringing. A busy
// process has one in flight at nearly every reading, and does not stop for each; what is lost without a
// failed call (there should be no such thing) is found in a dozen seconds.
const mostDoubts = 8

// A place is one of our lists: a queue's working list, or the quarantine list, which belongs to none.
type place struct {
	queue       string
	quarantined bool
}

func (r *Run) place() place {
	if r.quarantined {
		return place{quarantined: true}
	}
	return place{queue: r.Queue}
}

func (k *keyspace) listAt(at place) string {
	if at.quarantined {
		return k.cfg.Keys.QuarantineRun(k.session.Identity)
	}
	return k.cfg.Keys.Working(at.queue, k.session.Identity)
}

// A reading goes through one list page by page, newest entries first, where the orphaned ones of a take
// that has just failed are: it ends when as many have been found as there can be. Entries move while it
// does, so one may be met on two pages; each page is compared for itself.
type reading struct {
	place place
	first int            // index of the next page
	most  int            // how many orphaned entries there may be on the pages to come
	left  map[string]int // what has left our lists since the page was asked for
}

// An orphan is an orphaned entry.
type orphan struct {
	place place
	bytes string
}

func newReconcile() reconcile { return reconcile{readings: make(map[place]*reading)} }

// foundQuarantined reports whether a quarantined job is among the orphaned entries.
func (c *reconcile) foundQuarantined() bool {
	return slices.ContainsFunc(c.orphaned, func(o orphan) bool { return o.place.quarantined })
}

// leave takes a run out of the ledger whose job has left its list: a page that was asked for before may
// still show it.
func (k *keyspace) leave(r *Run) {
	if under := k.reconcile.readings[r.place()]; under != nil && r.owner == k.session {
		under.left[r.Bytes]++
	}
	r.owner.left++
	k.ledger.move(r, gone)
}

// read begins to read the list at a place, unless that is being done.
func (c *reconcile) read(at place, most int) {
	if c.readings[at] == nil {
		c.readings[at] = &reading{place: at, most: most, left: make(map[string]int)}
		c.toRead = append(c.toRead, c.readings[at])
	}
}

// doubt records that the lists of a session may hold jobs that are not in the ledger. An error that is
// certain brought none.
func (k *keyspace) doubt(session *Session, err error) {
	if session == k.session && (err == nil || !driver.Certain(err)) {
		k.reconcile.unsure, k.reconcile.looked = true, false
	}
}

// addLengths adds the reading of our lists' lengths to a pipeline, when it is time.
func (k *keyspace) addLengths(p *pipeline) {
	c := &k.reconcile
	again := c.unsure && !c.looked && len(k.operations) == 0
	if k.session == nil || k.session.Over() || c.asking || (!c.due && !again) {
		return
	}
	session, queues, op, left := k.session, k.names(), k.lastOp, k.session.left
	still := len(k.operations) == 0
	c.due, c.asking = false, true
	lengths := lua.Lengths(k.listsToSee(queues))
	paused := driver.Command(append([]string{"SMISMEMBER", k.cfg.Keys.Paused()}, queues...)...)
	p.addAll([]driver.Call{lengths.Call, paused}, func(replies []driver.Reply) {
		if session != k.session {
			return
		}
		c.asking = false
		answer, err := lengths.Read(replies[0])
		if err != nil {
			k.fail("look", err)
			return
		}
		ours := len(queues) + 1
		k.handleLengths(queues, answer[:ours], still && op == k.lastOp, session.left-left)
		k.handlePaused(queues, replies[1])
		k.handleQuarantines(queues, answer[ours:])
		if p.small {
			k.probed(time.Now())
		}
	})
}

// listsToSee returns the lists whose lengths are read: ours, and then the quarantine of each queue.
func (k *keyspace) listsToSee(queues []string) []string {
	return append(k.cfg.Keys.ListsOf(queues, k.session.Identity), k.cfg.Keys.QuarantineLists(queues)...)
}

// handleLengths compares our lists, those of the queues and the quarantine list, with the ledger. still
// says that nothing which brings jobs was in flight from the question to the answer, left how many jobs
// left our lists meanwhile.
func (k *keyspace) handleLengths(queues []string, lengths []int, still bool, left int) {
	known, sure := make(map[place]int, len(lengths)), make(map[place]int, len(lengths))
	for r := range k.ledger.of(k.session) {
		known[r.place()]++
		if r.state != settling && r.state != unacked {
			sure[r.place()]++ // the others' settles may have taken them out
		}
	}
	c, more, fewer := &k.reconcile, false, false
	for i, length := range lengths {
		at := place{quarantined: true}
		if i < len(queues) {
			at = place{queue: queues[i]}
		}
		if at.quarantined && !k.loop.quarantine.asking {
			c.quarantineUnsure = length > 0 && known[at] == 0 && !c.foundQuarantined()
		}
		switch {
		case length <= 0 || length == sure[at]:
		case c.unsure && still && length > sure[at]:
			c.read(at, length-sure[at])
		case c.unsure && still:
			c.read(at, length) // Redis has lost some, and there may be orphaned entries among the others
		default:
			more, fewer = more || length > known[at]+left, fewer || length < sure[at]
		}
	}
	switch {
	case c.unsure:
		c.looked = c.looked || still
	case !more && !fewer:
		c.doubts = 0
	case c.doubts >= mostDoubts || (more && !k.mayBring()):
		k.doubt(k.session, nil)
	default:
		c.doubts++
	}
}

// mayBring reports whether a take is in flight.
func (k *keyspace) mayBring() bool { return len(k.operations) > k.openWaits() }

// handlePaused takes in which queues are paused, so that a wait on one that now is gets released, and one
// that is not any more is looked at.
func (k *keyspace) handlePaused(queues []string, reply driver.Reply) {
	flags, ok := reply.Value.([]any)
	if !ok || len(flags) != len(queues) {
		return // the next take tells
	}
	for i, queue := range queues {
		k.queues[queue].learnPaused(flags[i] == int64(1))
	}
}

// handleQuarantines takes in how many quarantined jobs wait in each queue.
func (k *keyspace) handleQuarantines(queues []string, waiting []int) {
	for i, queue := range queues {
		q := k.queues[queue]
		q.quarantined = waiting[i] > 0 && !q.paused
	}
	k.reconcile.quarantinesRead = true
}

// addReading adds the next page of a list that is being read: one in a pipeline, and none while anything is
// in flight that may bring a job.
func (k *keyspace) addReading(p *pipeline) {
	c := &k.reconcile
	if len(c.toRead) == 0 || len(k.operations) > 0 || k.session.Over() {
		return
	}
	session, op, read, page := k.session, k.lastOp, c.toRead[0], k.pace.Page()
	c.toRead = c.toRead[1:]
	clear(read.left)
	ask := k.cfg.Keys.Entries(k.listAt(read.place), read.first, page, k.cfg.Largest)
	calls := []driver.Call{ask.Call}
	if read.place.quarantined {
		calls = append(calls, k.cfg.Keys.QuarantinedFrom(session.Identity))
	}
	p.may += page + k.cfg.Largest
	p.addAll(calls, func(replies []driver.Reply) {
		if session != k.session {
			return
		}
		listed, err := ask.Read(replies[0])
		if err == nil && read.place.quarantined {
			c.quarantinedFrom, err = lua.QuarantinedFromOf(replies[1])
		}
		switch {
		case err != nil && !driver.Outage(err):
			delete(c.readings, read.place)
			k.fail("look", err)
		case err != nil:
			c.toRead = append(c.toRead, read) // what the pages before have shown is kept
			k.fail("look", err)
		case op != k.lastOp:
			c.toRead = append(c.toRead, read) // what has begun since may have brought some of it
		default:
			k.succeed()
			k.addLarge(session, read.place, listed.Large...)
			k.compare(read, listed, page)
		}
	})
}

// compare finds the orphaned entries of one page, and goes on to the next where there may be more.
func (k *keyspace) compare(read *reading, listed lua.Listed, page int) {
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
		if r.place() == read.place {
			unknown[r.Bytes]--
		}
	}
	for _, o := range c.orphaned {
		if o.place == read.place {
			unknown[o.bytes]--
		}
	}
	for _, entry := range slices.Backward(entries) { // the oldest first
		if unknown[entry]-read.left[entry] > 0 {
			unknown[entry]--
			read.most--
			c.orphaned = append(c.orphaned, orphan{place: read.place, bytes: entry})
		}
	}
	read.most -= len(listed.Large) // they are on their way to the dead set
	if read.most > 0 && (len(entries) == lua.MostItems || bytes >= page) {
		read.first += len(entries) + len(listed.Large)
		c.toRead = append(c.toRead, read)
		return
	}
	delete(c.readings, read.place)
}
