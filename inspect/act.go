package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// A Task describes an act on jobs of one home.
type Task struct {
	Home      Home
	Action    Action
	Selection Selection
	To        string    // the target queue of Move; empty for jobs of a gate: each goes to its own
	At        time.Time // the time of Reschedule, by Redis' clock (see Inspector.Now)
	Later     bool      // Reschedule makes no job run earlier
}

// Check returns an error if the task is impossible, whatever Redis holds: its action in its home, its
// Selection, the name of the target queue, or the time. Act and Step return the same error.
func (t Task) Check() error {
	switch {
	case t.Home == (Home{}):
		return fmt.Errorf("%s: Task.Home is not set", t.Action)
	case !t.Action.PossibleIn(t.Home.Place()):
		return fmt.Errorf("%s: not possible for jobs in %s", t.Action, t.Home)
	case t.Selection.ways() > 1:
		return fmt.Errorf("%s: Task.Selection has more than one of All, IDs or Refs, and a Filter: give one of them", t.Action)
	}
	switch t.Action {
	case Move:
		if t.To == "" && t.Home.place == PlaceWaiting {
			return nil
		}
		if err := job.CheckQueue(t.To); err != nil {
			return fmt.Errorf("move: %w", err)
		}
		if t.Home.queue == t.To && t.Home.place != PlaceWaiting {
			return errors.New("move: the two queues are the same")
		}
	case Reschedule:
		if t.At.Unix() <= 0 || t.At.After(latest) {
			return errors.New("reschedule: give a time between 1970 and the year 9999")
		}
	}
	return nil
}

// A Selection chooses jobs of a home: all of them, those that IDs or Refs name, or those that match the Filter,
// if a field of it is set. More than one of these three ways is an error: a Filter beside All could mean fewer
// jobs than All does, and an act cannot be undone. The zero Selection chooses none.
type Selection struct {
	All bool
	// IDs are Entry.ID. Of several entries with one ID, the first that is found is chosen. All jobs may have
	// to be read.
	IDs []string
	// Refs are Entry.Ref. Only the entries near that place are read.
	Refs []string
	Filter
	// PayloadLimit is the limit of the workers in bytes. Retry refuses jobs that died because of their size
	// and exceed it, because they would die again. Default: job.DefaultPayloadLimit.
	PayloadLimit int
}

// ways counts the ways in which jobs are chosen.
func (s Selection) ways() (n int) {
	for _, given := range []bool{s.All, len(s.IDs)+len(s.Refs) > 0, !s.Filter.none()} {
		if given {
			n++
		}
	}
	return n
}

// ActCounts counts what an act has done so far.
type ActCounts struct {
	// Moved counts jobs that reached their destination.
	Moved int `json:"moved"`
	// Gone counts jobs that were read and had left before they could be moved: a worker or another operator
	// took them.
	Gone int `json:"gone"`
	// Refused counts jobs that cannot be moved and stay where they are. Problems has the reasons of the first
	// 20.
	Refused  int      `json:"refused"`
	Problems []string `json:"problems,omitempty"`
	// Missing are IDs of the Selection that were not found or have left.
	Missing []string `json:"missing,omitempty"`
	// Locked counts, with Move, jobs that a Ruby gem has locked, by the name of the gem: a run in Go does not
	// release its lock.
	Locked map[string]int `json:"locked,omitempty"`
}

// Add adds what a later step of the same task did. Missing becomes that of the later step.
func (c *ActCounts) Add(step ActCounts) {
	c.Moved, c.Gone, c.Refused = c.Moved+step.Moved, c.Gone+step.Gone, c.Refused+step.Refused
	c.Missing = step.Missing
	for _, why := range step.Problems {
		c.addProblem(why)
	}
	for gem, jobs := range step.Locked {
		c.addLocked(gem, jobs)
	}
}

func (c *ActCounts) addLocked(gem string, jobs int) {
	if c.Locked == nil {
		c.Locked = make(map[string]int)
	}
	c.Locked[gem] += jobs
}

// foreignLock names the Ruby gem that has locked a job that moves.
func (a *act) foreignLock(e Entry) string {
	if a.Action != Move || a.To == "" || e.parsed == nil {
		return ""
	}
	return e.parsed.ForeignLock()
}

func (c *ActCounts) addProblem(why string) {
	if len(c.Problems) < maxProblems && !slices.Contains(c.Problems, why) {
		c.Problems = append(c.Problems, why)
	}
}

// Act does a task, a page at a time, and calls progress, unless nil, after each page. Each job moves in one
// step, so of several operators and workers only one gets it. Act covers the jobs that were there when it
// began: it skips jobs that enter a set meanwhile, such as a job that was retried and died again, and deletes
// no more jobs from a queue than it held.
//
// After an error, the jobs that have moved stay moved, and Act may be called again. If a reply of Redis was
// lost, up to 256 more jobs than ActCounts says may have moved.
func (i *Inspector) Act(ctx context.Context, task Task, progress func(ActCounts)) (ActCounts, error) {
	a, err := i.start(ctx, task, "", true)
	for err == nil && !a.ended {
		if err = a.next(ctx); err == nil && progress != nil {
			progress(a.counts)
		}
	}
	a.missing()
	return a.counts, err
}

// A Step is a part of a task.
type Step struct {
	// ActCounts counts what this step did. If the task has a next step, Missing has the IDs and Refs that
	// remain.
	ActCounts
	// Looked is how many entries the step read.
	Looked int `json:"looked"`
	// Next continues the task; empty at its end.
	Next string `json:"next,omitempty"`
}

// stepPages is how many pages a Step reads at most, about 30 ms on a near Redis.
const stepPages = 8

// Step does a bounded part of a task, at most 2,048 entries, for programs that report progress or cannot wait:
// the first part with an empty cursor, and each later one with Step.Next. All parts together are one Act.
// Between them, a Selection by IDs or Refs may be reduced to Step.Missing. A cursor is not secret and
// reserves nothing: if the caller dies, the rest of the jobs are where they were.
func (i *Inspector) Step(ctx context.Context, task Task, cursor string) (Step, error) {
	a, err := i.start(ctx, task, cursor, false)
	for page := 0; err == nil && !a.ended && page < stepPages; page++ {
		err = a.next(ctx)
	}
	a.missing()
	step := Step{ActCounts: a.counts, Looked: a.looked}
	if !a.ended {
		at := a.jobs.position()
		at.Spread = a.spread
		step.Next = cursorOf(at)
	}
	return step, err
}

type act struct {
	i *Inspector
	Task
	wanted map[string]bool // IDs not found yet
	clock  lua.Clock
	jobs   *reader
	ended  bool
	// refused are entries of the last page that were refused and are read again.
	refused map[string]bool
	// spread is how many jobs have the new time so far, also by earlier steps. Reschedule adds a microsecond
	// for each.
	spread int
	looked int
	counts ActCounts
	// moved is called for each job that was moved.
	moved func(Entry)
	// unmarked is the score of the newest mark of a cancelled job; marks up to it do not cancel what is
	// retried.
	unmarked int64
}

// start begins a task, or continues it at a cursor. With seek, a page may be as long as a search by jid looks.
func (i *Inspector) start(ctx context.Context, task Task, cursor string, seek bool) (*act, error) {
	a := &act{i: i, Task: task, wanted: make(map[string]bool), ended: true, moved: func(Entry) {}}
	for _, id := range a.Selection.IDs {
		a.wanted[id] = true
	}
	var at position
	if err := cmp.Or(a.Check(), readCursor(cursor, &at)); err != nil || a.done() && len(a.Selection.Refs) == 0 {
		return a, err
	}
	a.spread = at.Spread
	err := a.readClock(ctx)
	if err == nil && cursor == "" {
		err = a.direct(ctx)
	}
	if err == nil && !a.done() {
		var cfg readConfig
		if seek && a.named() {
			cfg.jids = a.Selection.IDs
		}
		a.jobs, err = i.read(ctx, a.Home, a.Home.key(i.keys), at, cfg)
		a.ended = a.jobs == nil
	}
	return a, a.wrap(err)
}

// direct acts on the jobs that Refs name. The first step of a task does it for all of them.
func (a *act) direct(ctx context.Context) error {
	named := make(map[string]bool)
	for _, ref := range a.Selection.Refs {
		if named[ref] {
			continue
		}
		named[ref] = true
		entry, found, err := a.i.Get(ctx, a.Home, ref)
		if err != nil {
			return err
		}
		if !found {
			a.counts.Missing = append(a.counts.Missing, ref)
			continue
		}
		if a.waits(entry) {
			continue
		}
		if err := a.send(ctx, []*pick{{Entry: entry, name: ref}}); err != nil {
			return err
		}
	}
	return nil
}

func (a *act) next(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return a.wrap(err)
	}
	page, err := a.jobs.next(ctx)
	a.ended = err == nil && len(page) == 0
	if err == nil && !a.ended {
		err = a.page(ctx, page)
		a.ended = err == nil && a.done()
	}
	return a.wrap(err)
}

// named reports whether the jobs are selected by nothing but their names.
func (a *act) named() bool { return !a.Selection.All && a.Selection.Filter.none() }

// done reports whether all IDs were found, and nothing else is selected.
func (a *act) done() bool { return a.named() && len(a.wanted) == 0 }

// missing records the IDs that were not found.
func (a *act) missing() {
	for _, id := range a.Selection.IDs {
		if a.wanted[id] {
			delete(a.wanted, id)
			a.counts.Missing = append(a.counts.Missing, id)
		}
	}
}

func (a *act) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s in %s: %w", a.Action, a.Home, err)
}

// A pick is one entry, and whether it stays where it is.
type pick struct {
	Entry
	name    string // the ID or Ref that selected it, if one did
	stays   bool
	refused bool
	// replaced is set if the youngest job of its list has taken its place.
	replaced bool
}

// page acts on the selected entries of a page, and tells the reader which entries stayed.
func (a *act) page(ctx context.Context, page []Entry) error {
	picks := make([]pick, len(page))
	var chosen []*pick
	for n, entry := range page {
		a.looked += 1 + entry.raw.LeftOut
		a.i.parse(&entry)
		p := &picks[n]
		p.Entry = entry
		if p.stays = !a.selects(p); !p.stays {
			chosen = append(chosen, p)
		}
	}
	if err := a.send(ctx, chosen); err != nil {
		return err
	}
	a.pass(picks)
	return nil
}

// pass tells the reader which entries stayed. Where the youngest job has taken the place of one that left, that
// job is read next.
func (a *act) pass(picks []pick) {
	replaced := false
	again := make(map[string]bool)
	for n := range picks {
		p := &picks[n]
		replaced = replaced || p.replaced
		if !replaced || !p.stays {
			a.jobs.passed(p.Entry, p.stays)
		} else if p.refused || a.refused[p.raw.Bytes] {
			again[p.raw.Bytes] = true
		}
	}
	a.refused = again
}

func (a *act) selects(p *pick) bool {
	s := a.Selection
	switch {
	case a.refused[p.raw.Bytes], a.Home.place == PlaceWaiting && a.Home.queue != "" && p.Queue != a.Home.queue:
		return false
	case a.wanted[p.ID]:
		delete(a.wanted, p.ID)
		p.name = p.ID
		return true
	case a.waits(p.Entry), a.rescheduled(p.Entry),
		a.Action == Move && p.Queue == a.To && a.Home.place != PlaceWaiting:
		return false
	}
	return s.All || !s.Filter.none() && s.matches(p.Entry)
}

// rescheduled reports whether a job has the new time already, by this act or an earlier one.
func (a *act) rescheduled(e Entry) bool {
	after := e.At.Sub(a.At.Truncate(time.Microsecond))
	if a.Action != Reschedule || after < 0 {
		return false
	}
	if after == time.Duration(a.spread)*time.Microsecond { // not by this one, which goes on behind it
		a.spread++
	}
	return after < time.Duration(a.spread)*time.Microsecond
}

// waits reports whether a job that is only to be postponed waits for a later time already.
func (a *act) waits(e Entry) bool { return a.Action == Reschedule && a.Later && e.At.After(a.At) }

// send sends jobs to the action's destination. A job of a list that is not near the place where it was read is
// searched for: it has gone only if it is not found.
func (a *act) send(ctx context.Context, chosen []*pick) error {
	lost, err := a.sendBatches(ctx, chosen)
	for try := 0; err == nil && len(lost) > 0; try++ {
		var moved, gone []*pick
		if moved, gone, err = a.search(ctx, lost); err != nil {
			break
		}
		a.counts.Gone += len(gone)
		for _, p := range gone {
			if p.name != "" {
				a.counts.Missing = append(a.counts.Missing, p.name)
			}
		}
		if try == tries {
			a.refuse("it moves within its queue too fast: repeat the act", moved...)
			break
		}
		lost, err = a.sendBatches(ctx, moved)
	}
	return err
}

// tries is how often a job that moves within its list is searched for. Each time it has moved by more than
// lua.Around places within a round trip.
const tries = 8

// search finds jobs of a list that were not where they had been read: workers took jobs before them, or brought
// some back.
func (a *act) search(ctx context.Context, lost []*pick) (moved, gone []*pick, err error) {
	if a.Home.sorted() {
		return nil, lost, nil
	}
	at := make(map[string]int)
	note := func(index int, raw lua.Entry) bool {
		at[raw.Bytes] = index
		return false
	}
	err = a.i.near(ctx, a.Home.key(a.i.keys), float64(lost[0].index), note)
	for _, p := range lost {
		if index, there := at[p.raw.Bytes]; there {
			p.index = index
			moved = append(moved, p)
		} else {
			gone = append(gone, p)
		}
	}
	slices.SortStableFunc(moved, func(p, q *pick) int { return p.index - q.index })
	return moved, gone, err
}

// sendBatches sends the chosen jobs, and returns those that were not found. It marks those that cannot be sent
// as staying. Jobs that are retried while others are cancelled are sent again.
func (a *act) sendBatches(ctx context.Context, chosen []*pick) (lost []*pick, err error) {
	for try := 0; err == nil && len(chosen) > 0; try++ {
		if try > tries {
			a.refuse("jobs are being cancelled at the same time; try again", chosen...)
			break
		}
		var gone []*pick
		gone, chosen, err = a.sendOnce(ctx, chosen)
		lost = append(lost, gone...)
	}
	return lost, err
}

// sendOnce is one attempt of sendBatches. It also returns the jobs that did not move because of a newer mark.
func (a *act) sendOnce(ctx context.Context, chosen []*pick) (lost, again []*pick, err error) {
	batches := a.pack(chosen)
	atOnce := max(len(batches), 1)
	if !a.Home.sorted() {
		atOnce = 1 // Redis executes a pipeline without a break, and each of these calls is a search
	}
	left := 0 // jobs of a list that left before the others, each of which is one place older now
	for chunk := range slices.Chunk(batches, atOnce) {
		var ended []string
		asks, calls := lua.AskEach(chunk, func(p *batch) lua.Ask[lua.Acted] {
			p.source.Near = max(p.source.Near-left, 0)
			ended = append(ended, p.ended()...)
			return a.i.keys.Act(p.source, []lua.ActGroup{p.group})
		})
		if len(ended) > 0 {
			calls = append(calls, a.i.keys.AnnounceEnded(ended))
		}
		for n, reply := range a.i.link.Carry(ctx, 0, calls...)[:len(chunk)] {
			picks := chunk[n].picks
			acted, replyErr := asks[n].Read(reply)
			switch {
			case replyErr == nil && acted.Marked > 0:
				a.unmarked, again = max(a.unmarked, acted.Marked), append(again, picks...)
			case replyErr == nil:
				for _, position := range acted.Gone {
					lost = append(lost, picks[position])
				}
				left += len(picks) - len(acted.Gone) - len(acted.Replaced)
				for _, position := range acted.Replaced {
					picks[position].replaced = true
				}
				for _, held := range acted.Held {
					p := picks[held.Position]
					a.refuse(fmt.Sprintf("%s: it is a duplicate of %s, which has the lock", p.ID, held.Holder), p)
				}
				for _, p := range picks {
					if !p.refused && !slices.Contains(lost, p) {
						a.counts.Moved++
						a.moved(p.Entry)
						if gem := a.foreignLock(p.Entry); gem != "" {
							a.counts.addLocked(gem, 1)
						}
					}
				}
			case driver.Outage(replyErr):
				err = cmp.Or(err, replyErr)
			default: // one key has a wrong type: only the jobs for that key stay
				a.refuse(replyErr.Error(), picks...)
			}
		}
		if err != nil {
			break
		}
	}
	return lost, again, err
}

func (a *act) refuse(why string, picks ...*pick) {
	for _, p := range picks {
		p.stays, p.refused = true, true
	}
	a.counts.Refused += len(picks)
	a.counts.addProblem(why)
}
