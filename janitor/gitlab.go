package janitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// The defaults of GitLab's reliable fetch.
const (
	// GitLabLifespan is how long a heartbeat lasts. Ruby processes send one three times in that time.
	GitLabLifespan = time.Minute
	// GitLabInterruptions is the number of interruptions that a job does not survive. In Ruby, the option
	// max_retries_after_interruption sets another one.
	GitLabInterruptions = 3
)

// A GitLab finds the working lists that Ruby processes with GitLab's reliable fetch have left, and recovers
// their jobs. The names of these lists are in no index, so it reads the names of all keys, page by page.
//
// It judges absence twice, as a Janitor does: a list whose process had no heartbeat at the first check is
// recovered only if the process has none when its jobs move, Doubt later, and only if Sight returned true in
// between. A Ruby process that could not reach Redis for a minute has sent a heartbeat by then.
//
// Its methods must not be called concurrently.
type GitLab struct {
	cfg    GitLabConfig
	link   link.Link
	cursor string

	now  time.Time     // Redis' time at the last sight
	seen time.Duration // since boot
	run  string        // of the server; empty if it may not be read
}

// GitLabConfig configures a GitLab.
type GitLabConfig struct {
	Client driver.Client
	Keys   lua.Keys
	Log    *slog.Logger
	// Round bounds a call without jobs on a healthy link. Default: 1.5 s.
	Round time.Duration
	// Gap is the maximum time between two calls of Sight. After a longer time Sight returns false.
	Gap time.Duration
	// Names is how many keys one page of names reads.
	Names int
	// Largest is the size in bytes above which jobs go to the dead set.
	Largest int
	// Interruptions is the number of interruptions that a job does not survive: it goes to the dead set. A
	// negative number means that it always goes back to its queue.
	Interruptions int
	// Unit is how instants are written into payloads.
	Unit job.TimeUnit
}

// A GitLabFound is a working list of GitLab's, as a look found it.
type GitLabFound struct {
	lua.GitLabList
	// Jobs is its length, Alive reports whether its process has a heartbeat.
	Jobs  int
	Alive bool
	// Unclear means that no process can be read from the name, or too many: Alive is not known.
	Unclear bool
}

// NewGitLab returns a GitLab that has seen nothing.
func NewGitLab(cfg GitLabConfig) *GitLab {
	cfg.Log = logbook.OrDiscard(cfg.Log)
	return &GitLab{cfg: cfg, cursor: "0", link: link.Link{Client: cfg.Client, Round: cfg.Round, Largest: cfg.Largest, Log: cfg.Log, Duty: "gitlab"}}
}

// Sight reports whether Redis could be reached without a gap since the last call of Sight: it is the same
// server, and its clock was not set. It returns false for the first call.
func (g *GitLab) Sight(ctx context.Context) (unbroken bool, err error) {
	sent := lua.SinceBoot()
	replies := g.link.Do(ctx, lua.AskTime, driver.Command("INFO", "server"))
	now, err := lua.TimeOf(replies[0])
	if err == nil && driver.Outage(replies[1].Err) {
		err = replies[1].Err
	}
	if err != nil {
		return false, fmt.Errorf("read the clock of Redis: %w", err)
	}
	// A user that may not read it cannot see a restart that was shorter than the gap.
	text, _ := replies[1].Value.(string)
	_, run, _ := strings.Cut(text, "run_id:")
	run, _, _ = strings.Cut(run, "\r\n")
	ours, theirs := sent-g.seen, now.Sub(g.now)
	unbroken = !g.now.IsZero() && ours <= g.cfg.Gap && (ours-theirs).Abs() <= skew && run == g.run
	g.now, g.seen, g.run = now, sent, run
	return unbroken, nil
}

// Page returns the lists on the next page of names; last reports whether it was the last one. Most pages have
// none.
func (g *GitLab) Page(ctx context.Context) (found []GitLabFound, last bool, err error) {
	reply := g.link.Do(ctx, driver.Command("SCAN", g.cursor, "MATCH", g.cfg.Keys.GitLabPattern(), "COUNT", strconv.Itoa(g.cfg.Names), "TYPE", "list"))[0]
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
	for some := range slices.Chunk(names, lua.MaxItems) {
		looked, err := g.look(ctx, some)
		if err != nil {
			return nil, false, err
		}
		found = append(found, looked...)
	}
	g.cursor = next
	return found, next == "0", nil
}

// look reads the state of the lists with these names.
func (g *GitLab) look(ctx context.Context, names []string) ([]GitLabFound, error) {
	found := make([]GitLabFound, len(names))
	var calls []driver.Call
	for i, name := range names {
		list, clear := g.cfg.Keys.GitLabList(name)
		found[i] = GitLabFound{GitLabList: list, Unclear: !clear}
		calls = append(calls, driver.Command("LLEN", name))
		if clear {
			calls = append(calls, driver.Command(append([]string{"EXISTS"}, list.Heartbeats()...)...))
		}
	}
	replies, err := g.link.Do(ctx, calls...), error(nil)
	next := func() int64 {
		number, _ := replies[0].Value.(int64)
		err, replies = errors.Join(err, replies[0].Err), replies[1:]
		return number
	}
	for i, name := range names {
		found[i].Jobs = int(next())
		found[i].Alive = !found[i].Unclear && next() > 0
		if err != nil {
			return nil, fmt.Errorf("look at %q: %w", name, err)
		}
	}
	return found, nil
}

// A GitLabRecovered is the result of a recovery of one list.
type GitLabRecovered struct {
	// Recovered counts the jobs that left the list, and Dead those of them that went to the dead set.
	Recovered, Dead int
	// Alive reports that the process had a heartbeat in the end: the rest of its jobs stayed with it.
	Alive bool
}

// Recover moves the jobs of a list, page by page, to the heads of their queues, where they are the next ones
// to run, in the order in which they were taken. interrupted_count of each goes up by one, as when GitLab's
// cleaner does this; a job that has been interrupted too often goes to the dead set. Each page moves in one
// step, which does nothing if the process has a heartbeat.
func (g *GitLab) Recover(ctx context.Context, list lua.GitLabList) (sum GitLabRecovered, err error) {
	left := math.MaxInt
	for idle := 0; idle < 3; idle++ { // another program may take from the list at the same time
		if err := g.link.Check(ctx); err != nil {
			return sum, err
		}
		room := g.link.Page() / 2 // they are sent back twice, as old and new payloads
		ask := g.cfg.Keys.Entries(list.Key, 0, room, g.cfg.Largest)
		page, err := ask.Read(g.link.Carry(ctx, room, ask.Call)[0])
		switch {
		case g.link.Unchecked() && driver.Outage(err):
			continue // the page may only have been too large for the link
		case err != nil:
			return sum, fmt.Errorf("read %q: %w", list.Key, err)
		case len(page.Entries)+len(page.Large) == 0:
			return sum, nil
		}
		dead, err := g.killLarge(ctx, list, page.Large)
		sum.Recovered, sum.Dead = sum.Recovered+dead, sum.Dead+dead
		if err != nil {
			return sum, err
		}
		if dead > 0 {
			idle = -1
		}
		for _, orphans := range g.orphans(list, page.Entries) {
			answer, err := g.move(ctx, list, orphans)
			if err != nil {
				return sum, fmt.Errorf("recover %q: %w", list.Key, err)
			}
			if answer.State == lua.StateAlive {
				sum.Alive = true
				return sum, nil
			}
			if answer.Moved > 0 || answer.Left < left {
				idle = -1
			}
			left = answer.Left
			if answer.Moved > 0 {
				sum.Recovered += answer.Moved
				sum.Dead += g.report(orphans)
			}
		}
	}
	return sum, fmt.Errorf("recover %q: its jobs do not leave it; another program may be at work there", list.Key)
}

// killLarge moves entries that are too large to the dead set, unless the list's process has a heartbeat: the
// last entry first, so that all are still at their positions.
func (g *GitLab) killLarge(ctx context.Context, list lua.GitLabList, large []lua.Large) (dead int, err error) {
	if len(large) == 0 {
		return 0, nil
	}
	answer, err := g.move(ctx, list, lua.Orphans{Queue: list.Queue})
	if err != nil || answer.State == lua.StateAlive {
		return 0, err
	}
	for _, one := range slices.Backward(large) {
		large := dedup.TooLarge(one, list.Key, list.Queue, g.cfg.Largest, g.now, g.cfg.Unit)
		calls, read := g.cfg.Keys.EndLarge(large, g.cfg.Log)
		moved, err := read(g.link.Do(ctx, calls...)[0])
		if err != nil {
			return dead, fmt.Errorf("recover %q: %w", list.Key, err)
		}
		if moved {
			dead++
		}
	}
	return dead, nil
}

// orphans returns what becomes of these entries, by their queues. Nearly all lists are of one queue.
func (g *GitLab) orphans(list lua.GitLabList, entries []string) (all []lua.Orphans) {
	for _, entry := range entries {
		queue := list.Queue
		orphan := lua.Orphan{Old: entry, New: entry, Home: lua.HomeQueue}
		parsed, err := job.Parse(entry)
		if err != nil {
			orphan.New, orphan.Home = job.KeepUnreadable(entry, queue, err, g.now, g.cfg.Unit), lua.HomeDead
			orphan.State = lua.DeadUnread(entry, entry, g.now)
		} else {
			said, _ := parsed.Text("queue")
			queue = list.QueueOf(said)
			g.interrupt(&orphan, parsed, queue)
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
func (g *GitLab) interrupt(orphan *lua.Orphan, parsed *job.Job, queue string) {
	count := crashes(parsed)
	edits := []job.Edit{job.SetInt("interrupted_count", count)}
	if g.cfg.Interruptions >= 0 && count >= g.cfg.Interruptions {
		orphan.Home = lua.HomeDead
		edits = append(edits, job.SetString("error_class", "Belay::Interrupted"), job.SetString("error_message", fmt.Sprintf(
			"Ruby processes died or stopped %d times while they ran it", count)))
		orphan.State = lua.EndedState(parsed, lua.TrackDead, g.now)
	}
	orphan.New = parsed.Patch(edits...)
	orphan.Lock = lockOf(parsed, queue, orphan.Home, g.now, g.cfg.Unit)
}

// move sends the call that moves these jobs.
func (g *GitLab) move(ctx context.Context, list lua.GitLabList, orphans lua.Orphans) (lua.Recovered, error) {
	ask := g.cfg.Keys.RecoverGitLab(list, orphans, g.now)
	calls := append([]driver.Call{ask.Call}, announce(g.cfg.Keys, orphans.Entries)...)
	return ask.Read(g.link.Carry(ctx, 0, calls...)[0])
}

// report logs the jobs that went to the dead set, and returns their number. If another program moved some of
// them, it may report them too.
func (g *GitLab) report(orphans lua.Orphans) (dead int) {
	for _, orphan := range orphans.Entries {
		if orphan.Home != lua.HomeDead {
			continue
		}
		dead++
		parsed, _ := job.Parse(orphan.New) // which orphans wrote
		if _, unreadable := job.Parse(orphan.Old); unreadable != nil {
			g.cfg.Log.Error("moved to the dead set: unreadable payload",
				"error", unreadable, "queue", orphans.Queue, "bytes", len(orphan.Old))
		} else {
			g.cfg.Log.Error("moved to the dead set: too many interruptions in Ruby processes",
				"jid", parsed.JID(), "class", parsed.Class(), "interruptions", parsed.InterruptedCount())
		}
	}
	return dead
}
