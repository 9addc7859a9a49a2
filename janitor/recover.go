package janitor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

const (
	// maxVictims bounds the processes whose jobs move together, and maxLists their lists. One process after the
	// other would take three round trips for each: a minute for a thousand processes on a link of 20 ms.
	maxVictims = 64
	maxLists   = 256
	// maxPages is the maximum number of pages of one victim in one pass; the next pass continues.
	maxPages = 32
	// firstTypical is the assumed size of a job before any has been read.
	firstTypical = 4 << 10
	// maxClaim bounds how long a claim lasts: as long as a page may take on a slow link. Each page renews the
	// claim.
	maxClaim = 4 * time.Second
	// refusedFor is how long a victim is put off that has only jobs left that Redis refuses to move. Such a job
	// costs a call of its own in each pass, and most refusals last until an operator mends a key.
	refusedFor = 5 * time.Second
)

// A victim is a process that is judged dead and whose jobs are being recovered.
type victim struct {
	identity string
	record   lua.Record
	lists    []string // the working lists of its queues, then the list of its quarantined job

	state   lua.State
	held    bool            // its claim is ours
	lengths []int           // of its lists
	page    *lua.Orphans    // the page that was read and has not been moved
	from    int             // index of the list of that page
	single  bool            // Redis has refused to move the page; its entries move one by one
	large   []lua.Large     // entries that are too large, which go to the dead set
	largeAt int             // index of their list
	broken  map[int]error   // why a list cannot be read, by its index
	refused map[int]refusal // entries that Redis refuses to move, by the index of their list
	pages   int             // number of pages in this pass
	moved   int             // number of jobs moved
	done    bool            // there is no more to do in this pass
	more    bool            // there are more pages than one pass moves
	err     error
}

// A refusal is how many entries at the head of a list Redis refuses to move, and why the first of them. They
// stay there, and the entries after them are moved.
type refusal struct {
	entries int
	err     error
}

// finished reports whether all its jobs were moved.
func (v *victim) finished() bool { return v.held && v.done && !v.more && v.err == nil }

// A pipeline holds calls, and a function for the reply to each.
type pipeline struct {
	calls []driver.Call
	reads []func(driver.Reply) error
}

// add adds a call, and calls after it whose replies do not matter.
func (p *pipeline) add(call driver.Call, read func(driver.Reply) error, after ...driver.Call) {
	p.calls, p.reads = append(p.calls, call), append(p.reads, read)
	for _, call := range after {
		p.add(call, func(driver.Reply) error { return nil })
	}
}

// read passes each reply to its function and returns the first outage. It reads the replies after an outage
// too: calls that were answered have taken effect.
func (p *pipeline) read(replies []driver.Reply) error {
	var outage error
	for i, reply := range replies {
		if err := p.reads[i](reply); err != nil && outage == nil {
			outage = err
		}
	}
	return outage
}

// moveJobs declares victims dead and moves the jobs in their lists page by page. It claims them for me,
// unless me is empty. It records the result in each victim; the error is an outage.
//
// It reads no list before the process is declared dead: a job that is larger than our limit goes to the dead
// set, and a live process may have a higher limit. A list with a broken key does not block the others, and an
// entry that Redis refuses to move, because a key of its batch is broken, does not block the others of its
// list. These jobs stay, and the victim's error has the reason.
func (j *Janitor) moveJobs(ctx context.Context, me string, victims []*victim) error {
	if len(victims) == 0 {
		return nil
	}
	if err := j.declareDead(ctx, me, victims); err != nil {
		return err
	}
	for {
		turn := j.turn(victims)
		if len(turn) == 0 {
			return nil
		}
		if err := j.movePages(ctx, me, turn); err != nil {
			return err
		}
	}
}

// declareDead claims victims, declares them dead, and reads the lengths of their lists.
func (j *Janitor) declareDead(ctx context.Context, me string, victims []*victim) error {
	var p pipeline
	for _, v := range victims {
		v.held = true
		j.claim(&p, me, v)
		verdict := j.cfg.Keys.Recover(v.identity, v.record.Queues, nil, j.now())
		p.add(verdict.Call, func(reply driver.Reply) error {
			answer, err := verdict.Read(reply)
			v.state = answer.State
			v.done = v.done || err != nil || answer.State != lua.StateDead || answer.Left == 0
			return v.note(err)
		})
		j.measure(&p, v)
	}
	return p.read(j.link.Do(ctx, p.calls...))
}

// claim adds the claim of a victim to a pipeline. A claim only saves work: even without it, script recover
// moves each job once.
func (j *Janitor) claim(p *pipeline, me string, v *victim) {
	if me == "" {
		return
	}
	// Every janitor must ask for the same duration. Otherwise one that asks for less would take the claim
	// from the others.
	claim := lua.Lease(j.cfg.Keys.Claim(v.identity), me, max(j.cfg.Beat, min(j.cfg.TTL, maxClaim)))
	p.add(claim.Call, func(reply driver.Reply) error {
		held, err := claim.Read(reply)
		v.held = held
		v.done = v.done || !held
		return v.note(err)
	})
}

// measure adds the reading of the lengths of a victim's lists to a pipeline.
func (j *Janitor) measure(p *pipeline, v *victim) {
	lengths := lua.Lengths(v.lists)
	p.add(lengths.Call, func(reply driver.Reply) (err error) {
		v.lengths, err = lengths.Read(reply)
		v.done = v.done || err != nil
		return v.note(err)
	})
}

// note returns err if it is an outage. Any other error concerns this victim only, and is recorded there.
func (v *victim) note(err error) error {
	if err == nil || driver.Outage(err) {
		return err
	}
	if v.err == nil {
		v.err = fmt.Errorf("recover jobs of %s: %w", v.identity, err)
	}
	return nil
}

// turn returns the victims for the next pipeline: so many that their jobs fill about one page, if they are of
// the typical size.
func (j *Janitor) turn(victims []*victim) []*victim {
	var turn []*victim
	maxVictims := max(j.room()/j.typical, 1)
	for _, v := range victims {
		// A page that was read is always moved.
		if !v.done && (v.page != nil || len(turn) < maxVictims) {
			turn = append(turn, v)
		}
	}
	return turn
}

// room returns how many bytes are read at once: half a page, because they are sent back twice, as old and new
// payloads.
func (j *Janitor) room() int { return j.link.Page() / 2 }

// movePages moves the page that was read of each victim, and reads the next one in the same round trip.
func (j *Janitor) movePages(ctx context.Context, me string, turn []*victim) error {
	var p pipeline
	read, bytes := 0, 0
	for _, v := range turn {
		next := v.next()
		if v.single {
			next = -1 // which entries of the page stay is not known yet
		}
		j.killLarge(&p, v)
		if v.page != nil || next < 0 {
			j.move(&p, v)
		}
		if next >= 0 {
			j.read(ctx, &p, v, next, max(j.room()/len(turn), 1))
		}
		j.claim(&p, me, v)
		j.measure(&p, v)
	}
	err := p.read(j.link.Carry(ctx, j.room(), p.calls...))
	for _, v := range turn {
		if v.page != nil {
			for _, orphan := range v.page.Entries {
				bytes += len(orphan.Old)
			}
			read += len(v.page.Entries)
		}
		v.finish()
	}
	if read > 0 {
		// Large jobs raise the value at once, because others may follow; small ones lower it slowly.
		j.typical = max(bytes/read, (j.typical+bytes/read)/2, 1)
	}
	return err
}

// next returns the index of the first list that has jobs besides the page that is being moved and those that
// Redis refuses to move; -1 for none.
func (v *victim) next() int {
	for i, length := range v.lengths {
		length -= v.refused[i].entries
		if v.page != nil && i == v.from {
			length -= len(v.page.Entries)
		}
		if length > 0 && v.broken[i] == nil {
			return i
		}
	}
	return -1
}

// move adds the calls that move the page that was read to a pipeline: one call, or one for each entry if that
// was refused. Without a page, the call checks that no jobs are left.
func (j *Janitor) move(p *pipeline, v *victim) {
	page, single := v.page, v.single
	v.page, v.single = nil, false
	switch {
	case page == nil:
		j.moveEntries(p, v, lua.Orphans{})
	case single:
		for entry := range slices.Chunk(page.Entries, 1) {
			j.moveEntries(p, v, lua.Orphans{Queue: page.Queue, Quarantined: page.Quarantined, Entries: entry})
		}
	default:
		j.moveEntries(p, v, *page)
	}
}

// moveEntries adds the call that moves these entries in one step to a pipeline.
func (j *Janitor) moveEntries(p *pipeline, v *victim, page lua.Orphans) {
	var orphans []lua.Orphans
	var announce []driver.Call
	from, count := v.from, len(page.Entries)
	if count > 0 {
		orphans, announce = []lua.Orphans{page}, j.cfg.Keys.AnnounceOrphans(page.Entries)
	}
	ask := j.cfg.Keys.Recover(v.identity, v.record.Queues, orphans, j.now())
	p.add(ask.Call, func(reply driver.Reply) error {
		answer, err := ask.Read(reply)
		switch {
		case driver.Outage(err):
			return err
		case err != nil && count > 1:
			v.page, v.single = &page, true // one of them may be the reason
			return nil
		case err != nil && count == 1:
			v.refuse(from, err)
			return nil
		case err != nil:
			v.done = true
			return v.note(err)
		}
		v.moved, v.state = v.moved+answer.Moved, answer.State
		if answer.Moved > 0 {
			j.report(v.identity, orphans)
		}
		// If no list has jobs and yet some are left, a key has a wrong type.
		v.done = v.done || answer.State != lua.StateDead || answer.Left == 0 || count == 0
		return nil
	}, announce...)
}

// refuse records that Redis refuses to move an entry of a list.
func (v *victim) refuse(list int, err error) {
	if v.refused == nil {
		v.refused = make(map[int]refusal)
	}
	was := v.refused[list]
	v.refused[list] = refusal{was.entries + 1, cmp.Or(was.err, err)}
}

// read adds the reading of a page of one list to a pipeline.
func (j *Janitor) read(ctx context.Context, p *pipeline, v *victim, at, room int) {
	orphans := lua.Orphans{Quarantined: at == len(v.record.Queues)}
	if orphans.Quarantined {
		// The record may have been read before its process took the quarantined job.
		from := j.cfg.Keys.QuarantinedFrom(v.identity)
		p.add(from.Call, func(reply driver.Reply) (err error) {
			orphans.Queue, err = from.Read(reply)
			return v.noteAt(at, err)
		})
	} else {
		orphans.Queue = v.record.Queues[at]
	}
	// A page is of one list, because it is bounded by items and by bytes anyway.
	skip := v.refused[at].entries
	ask := j.cfg.Keys.Entries(v.lists[at], skip, room, j.cfg.Largest)
	p.add(ask.Call, func(reply driver.Reply) error {
		listed, err := ask.Read(reply)
		// After a refusal in this round trip, the page is not the one after the entries that stay.
		expected := v.page == nil && v.refused[at].entries == skip
		if err == nil && expected && v.broken[at] == nil && !v.done {
			v.large, v.largeAt = listed.Large, at
			if len(listed.Entries) > 0 {
				var excused map[string]int
				running := !v.record.Emptied
				if running {
					if excused, err = j.excuse(ctx, listed.Entries); err != nil {
						return err
					}
				}
				orphans.Entries = j.afterCrash(listed.Entries, orphans.Queue, orphans.Quarantined, running, excused)
				v.page, v.from = &orphans, at
			}
		}
		return v.noteAt(at, err)
	})
}

// killLarge adds the calls that move entries that are too large to the dead set. They come before the call that
// moves the page, and the last entry comes first, so that each entry is still at its position.
func (j *Janitor) killLarge(p *pipeline, v *victim) {
	at, queue := v.largeAt, v.queue(v.largeAt)
	for _, entry := range slices.Backward(v.large) {
		large := dedup.TooLarge(entry, v.lists[at], queue, j.cfg.Largest, j.now(), j.cfg.Unit)
		calls, read := j.cfg.Keys.EndLarge(large, j.cfg.Log)
		p.add(calls[0], func(reply driver.Reply) error {
			_, err := read(reply)
			if err == nil || driver.Outage(err) {
				return err
			}
			v.refuse(at, err)
			return nil
		}, calls[1:]...)
	}
	v.large = nil
}

// queue returns the queue of a list, by its index; "" for the list of the quarantined job.
func (v *victim) queue(list int) string {
	if list < len(v.record.Queues) {
		return v.record.Queues[list]
	}
	return ""
}

// noteAt returns err if it is an outage. Any other error concerns this list only, and is recorded there.
func (v *victim) noteAt(list int, err error) error {
	if err == nil || driver.Outage(err) {
		return err
	}
	if v.broken == nil {
		v.broken = make(map[int]error)
	}
	v.broken[list] = err
	return nil
}

// finish ends a victim's turn: it decides whether the victim is done, and why jobs stay.
func (v *victim) finish() {
	v.pages++
	switch {
	case v.done:
	case v.pages == maxPages:
		v.done, v.more = true, true
	case len(v.broken)+len(v.refused) > 0 && v.page == nil && v.next() < 0:
		v.done = true // jobs are left that cannot be moved
	}
	if v.done && v.err == nil {
		for list, refused := range v.refused {
			v.err = fmt.Errorf("recover jobs of %q from %s: %d of them stay: %w", v.queue(list), v.identity, refused.entries, refused.err)
		}
		for list, err := range v.broken {
			v.err = fmt.Errorf("recover jobs of %q from %s: %w", v.queue(list), v.identity, err)
		}
	}
}
