package gitlab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

const (
	// round is the deadline of a call that carries no jobs, on a healthy link.
	round = 2 * time.Second
	// namesAtOnce is how many names one SCAN reads: half a millisecond of a busy Redis.
	namesAtOnce = 500
	// maxGap is the maximum time between two calls of sight. After a longer time an earlier check does not
	// count.
	maxGap = 5 * time.Second
	// skew is how far the clocks of Redis and of this machine may drift apart between two calls of sight. A
	// greater difference means that the clock of Redis was set.
	skew = time.Second
)

// A recoverer finds the working lists that Ruby processes with GitLab's reliable fetch have left, and recovers
// their jobs. The names of these lists are in no index, so it reads the names of all keys, page by page.
//
// It checks absence twice, as a janitor of Belay does: a list whose process had no heartbeat at the first
// check is recovered only if the process has none when its jobs move, Doubt later, and only if sight returned
// true in between. A Ruby process that could not reach Redis for a minute has sent a heartbeat by then.
//
// Its methods must not be called concurrently.
type recoverer struct {
	cfg     Config
	keys    keys
	link    link.Link
	largest int           // in bytes; larger jobs go to the dead set
	gap     time.Duration // after a longer time without a call, sight returns false
	cursor  string

	now  time.Time     // Redis' time at the last sight
	seen time.Duration // since boot
	run  string        // of the server; empty if it may not be read
}

// found is a working list and its state at one check.
type found struct {
	list
	// jobs is its length, alive reports whether its process has a heartbeat.
	jobs  int
	alive bool
	// unclear means that the name contains no process, or may mean too many: alive is not known.
	unclear bool
}

// newRecoverer returns a recoverer that has not called Redis yet.
func newRecoverer(cfg Config) *recoverer {
	cfg.Log = logbook.OrDiscard(cfg.Log)
	cfg.Doubt = cmp.Or(cfg.Doubt, Lifespan)
	cfg.Interruptions = cmp.Or(cfg.Interruptions, Interruptions)
	largest := cmp.Or(cfg.PayloadLimit, job.DefaultPayloadLimit) + job.PayloadSlack
	return &recoverer{
		cfg: cfg, keys: newKeys(cfg.Prefix, cfg.DeadLimits), largest: largest, gap: maxGap, cursor: "0",
		link: link.Link{Client: cfg.Client, Round: round, Largest: largest, Log: cfg.Log, Duty: "gitlab"},
	}
}

// sight reports whether Redis could be reached without a gap since the last call of sight: it is the same
// server, and its clock was not set. It returns false for the first call.
func (r *recoverer) sight(ctx context.Context) (unbroken bool, err error) {
	sent := lua.SinceBoot()
	replies := r.link.Do(ctx, lua.AskTime, driver.Command("INFO", "server"))
	now, err := lua.TimeOf(replies[0])
	if err == nil && driver.Outage(replies[1].Err) {
		err = replies[1].Err
	}
	if err != nil {
		return false, fmt.Errorf("read the clock of Redis: %w", err)
	}
	// Without the permission for INFO, a restart that is shorter than the gap goes unnoticed.
	text, _ := replies[1].Value.(string)
	_, run, _ := strings.Cut(text, "run_id:")
	run, _, _ = strings.Cut(run, "\r\n")
	local, remote := sent-r.seen, now.Sub(r.now)
	unbroken = !r.now.IsZero() && local <= r.gap && (local-remote).Abs() <= skew && run == r.run
	r.now, r.seen, r.run = now, sent, run
	return unbroken, nil
}

// page returns the lists on the next page of names; last reports whether it was the last one. Most pages have
// none.
func (r *recoverer) page(ctx context.Context) (lists []found, last bool, err error) {
	reply := r.link.Do(ctx, driver.Command("SCAN", r.cursor, "MATCH", r.keys.pattern(), "COUNT", strconv.Itoa(namesAtOnce), "TYPE", "list"))[0]
	if reply.Err != nil {
		return nil, false, fmt.Errorf("read the names of keys: %w", reply.Err)
	}
	parts, _ := reply.Value.([]any)
	if len(parts) != 2 {
		return nil, false, fmt.Errorf("read the names of keys: unexpected reply %v", reply.Value)
	}
	next, _ := parts[0].(string)
	names, err := lua.Texts(driver.Reply{Value: parts[1]})
	if err != nil {
		return nil, false, fmt.Errorf("read the names of keys: %w", err)
	}
	for chunk := range slices.Chunk(names, lua.MaxItems) {
		looked, err := r.look(ctx, chunk)
		if err != nil {
			return nil, false, err
		}
		lists = append(lists, looked...)
	}
	r.cursor = next
	return lists, next == "0", nil
}

// look reads the state of the lists with these names.
func (r *recoverer) look(ctx context.Context, names []string) ([]found, error) {
	lists := make([]found, len(names))
	var calls []driver.Call
	for i, name := range names {
		parsed, known := r.keys.list(name)
		lists[i] = found{list: parsed, unclear: !known}
		calls = append(calls, driver.Command("LLEN", name))
		if known {
			calls = append(calls, driver.Command(append([]string{"EXISTS"}, parsed.heartbeats...)...))
		}
	}
	replies, err := r.link.Do(ctx, calls...), error(nil)
	next := func() int64 {
		number, _ := replies[0].Value.(int64)
		err, replies = errors.Join(err, replies[0].Err), replies[1:]
		return number
	}
	for i, name := range names {
		lists[i].jobs = int(next())
		lists[i].alive = !lists[i].unclear && next() > 0
		if err != nil {
			return nil, fmt.Errorf("look at %q: %w", name, err)
		}
	}
	return lists, nil
}

// recovered is the result of a recovery of one list.
type recovered struct {
	// jobs counts the jobs that left the list, and dead those of them that went to the dead set.
	jobs, dead int
	// alive reports that the process had a heartbeat after all: the rest of its jobs stayed in the list.
	alive bool
	// refused counts the jobs that Redis refused to move, and refusal is why it refused the first of them. They
	// stay at the head of the list.
	refused int
	refusal error
	// left is the length of the list after the last move.
	left int
}

// refuse records that Redis refused to move a job.
func (sum *recovered) refuse(err error) {
	sum.refused, sum.refusal = sum.refused+1, cmp.Or(sum.refusal, err)
}

// recover moves the jobs of a list, page by page, to the heads of their queues, in the order in which they were
// taken, so that they run next. It increments the interrupted_count of each job, as GitLab's cleaner does; a
// job that was interrupted too often goes to the dead set. Each page moves in one step, which does nothing if
// the process has a heartbeat. A job that Redis refuses to move, because a key of its batch is broken, stops no
// other job: it stays in the list, and the error has the reason.
func (r *recoverer) recover(ctx context.Context, l list) (sum recovered, err error) {
	sum.left = math.MaxInt
	for idle := 0; idle < 3; idle++ { // another program may take from the list at the same time
		if err := r.link.Check(ctx); err != nil {
			return sum, err
		}
		room := r.link.Page() / 2 // they are sent back twice, as old and new payloads
		ask := r.keys.Entries(l.key, sum.refused, room, r.largest)
		page, err := ask.Read(r.link.Carry(ctx, room, ask.Call)[0])
		switch {
		case r.link.Unchecked() && driver.Outage(err):
			continue // the page may only have been too large for the link
		case err != nil:
			return sum, fmt.Errorf("read %q: %w", l.key, err)
		case len(page.Entries)+len(page.Large) > 0:
		case sum.refused > 0:
			return sum, fmt.Errorf("recover %q: %d of its jobs stay: %w", l.key, sum.refused, sum.refusal)
		default:
			return sum, nil
		}
		before := sum
		err = r.killLarge(ctx, l, page.Large, &sum)
		for _, orphans := range r.orphans(l, page.Entries) {
			if err == nil && !sum.alive {
				err = r.move(ctx, l, &sum, orphans)
			}
		}
		switch {
		case err != nil:
			return sum, fmt.Errorf("recover %q: %w", l.key, err)
		case sum.alive:
			return sum, nil
		case sum.jobs > before.jobs || sum.refused > before.refused || sum.left < before.left:
			idle = -1
		}
	}
	return sum, fmt.Errorf("recover %q: its jobs could not be moved; another program may be moving them", l.key)
}

// killLarge moves entries that are too large to the dead set, unless the list's process has a heartbeat: the
// last entry first, so that all are still at their positions.
func (r *recoverer) killLarge(ctx context.Context, l list, large []lua.Large, sum *recovered) error {
	if len(large) == 0 {
		return nil
	}
	if err := r.move(ctx, l, sum, lua.Orphans{Queue: l.queue}); err != nil || sum.alive {
		return err
	}
	for _, entry := range slices.Backward(large) {
		large := dedup.TooLarge(entry, l.key, l.queue, r.largest, r.now, job.Seconds)
		calls, read := r.keys.EndLarge(large, r.cfg.Log)
		moved, err := read(r.link.Do(ctx, calls...)[0])
		switch {
		case driver.Outage(err):
			return err
		case err != nil:
			sum.refuse(err)
		case moved:
			sum.jobs, sum.dead = sum.jobs+1, sum.dead+1
		}
	}
	return nil
}

// orphans returns these entries with their destinations, grouped by queue. Nearly every list has one queue.
func (r *recoverer) orphans(l list, entries []string) (all []lua.Orphans) {
	for _, entry := range entries {
		queue := l.queue
		orphan := lua.Orphan{Old: entry, New: entry, Home: lua.HomeQueue}
		parsed, err := job.Parse(entry)
		if err != nil {
			orphan.New, orphan.Home = job.KeepUnreadable(entry, queue, err, r.now, job.Seconds), lua.HomeDead
			orphan.State = lua.DeadUnread(entry, entry, job.UnreadableClass, err.Error(), r.now)
			orphan.Member = lua.MemberUnread(entry, entry, lua.MemberDied)
		} else {
			name, _ := parsed.Text("queue")
			queue = l.queueOf(name)
			r.interrupt(&orphan, parsed, queue)
		}
		at := slices.IndexFunc(all, func(o lua.Orphans) bool { return o.Queue == queue })
		if at < 0 {
			at, all = len(all), append(all, lua.Orphans{Queue: queue})
		}
		all[at].Entries = append(all[at].Entries, orphan)
	}
	return all
}

// interrupt counts one more interruption of a job.
func (r *recoverer) interrupt(orphan *lua.Orphan, parsed *job.Job, queue string) {
	count := parsed.InterruptedAgain()
	edits := []job.Edit{job.SetInt("interrupted_count", count)}
	if r.cfg.Interruptions >= 0 && count >= r.cfg.Interruptions {
		orphan.Home = lua.HomeDead
		edits = append(edits, job.SetString("error_class", "Belay::Interrupted"), job.SetString("error_message", fmt.Sprintf(
			"Ruby processes died or stopped %d times while they ran it", count)))
	}
	if orphan.New = parsed.Patch(edits...); orphan.Home == lua.HomeDead {
		orphan.State, orphan.Member = lua.DiedState(orphan.New, r.now), lua.MemberOf(parsed, lua.MemberDied)
	}
	orphan.Lock = dedup.AfterCrash(parsed, queue, orphan.Home, r.now, job.Seconds)
}

// move moves these jobs, those of each group in one step, all in one round trip. The jobs of a group that Redis
// refuses to move are tried once more, one by one. Without jobs it only asks whether the process has a
// heartbeat.
func (r *recoverer) move(ctx context.Context, l list, sum *recovered, groups ...lua.Orphans) error {
	asks, calls := lua.AskEach(groups, func(group lua.Orphans) lua.Ask[lua.Recovered] { return r.keys.recover(l, group, r.now) })
	for _, group := range groups {
		calls = append(calls, r.keys.AnnounceOrphans(group.Entries)...)
	}
	replies := r.link.Carry(ctx, 0, calls...)
	var singles []lua.Orphans
	for i, group := range groups {
		answer, err := asks[i].Read(replies[i])
		switch {
		case driver.Outage(err) || (err != nil && len(group.Entries) == 0):
			return err
		case err != nil && len(group.Entries) == 1:
			sum.refuse(err)
		case err != nil:
			for entry := range slices.Chunk(group.Entries, 1) {
				singles = append(singles, lua.Orphans{Queue: group.Queue, Entries: entry})
			}
		case answer.State == lua.StateAlive:
			sum.alive = true
		default:
			sum.left = answer.Left
			if answer.Moved > 0 {
				sum.jobs += answer.Moved
				sum.dead += r.report(group)
			}
		}
	}
	if len(singles) == 0 || sum.alive {
		return nil
	}
	return r.move(ctx, l, sum, singles...)
}

// report logs the jobs that went to the dead set, and returns their number. It may include jobs that another
// program moved.
func (r *recoverer) report(orphans lua.Orphans) (dead int) {
	for _, orphan := range orphans.Entries {
		if orphan.Home != lua.HomeDead {
			continue
		}
		dead++
		parsed, _ := job.Parse(orphan.New) // it cannot fail: orphans wrote the payload
		if _, unreadable := job.Parse(orphan.Old); unreadable != nil {
			r.cfg.Log.Error("moved to the dead set: unreadable payload",
				"error", unreadable, "queue", orphans.Queue, "bytes", len(orphan.Old))
		} else {
			r.cfg.Log.Error("moved to the dead set: too many interruptions in Ruby processes",
				"jid", parsed.JID(), "class", parsed.Class(), "interruptions", parsed.InterruptedCount())
		}
	}
	return dead
}
