package launcher

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

const (
	// queuesEvery is how often a process with patterns reads which queues there are. The first job of a new
	// queue waits for that long at most.
	queuesEvery = 3 * time.Second
	// queuesSoon is how soon a change is tried again that was not possible yet: a removed queue has running
	// jobs, or the session has just ended.
	queuesSoon = 250 * time.Millisecond
	// turnEvery is how often some of the queues that match let others take their places, if there are too many.
	// A change costs a small call for each queue.
	turnEvery = 10 * time.Second
	// maxNamePages is how many pages of names one pass reads; the next pass continues.
	maxNamePages = 16
	// maxMatching bounds how many matching queues are remembered, far above what a process takes.
	maxMatching = 4096
)

// A queueFollower has the state of the duty that follows the changes of the queues, confined to its goroutine.
type queueFollower struct {
	link   *link.Link // lanes.chores
	readAt time.Time  // when the names were last read
	cursor string     // where the next page of names begins
	seen   map[string]bool

	servedAt time.Time           // when the record last got its queues; zero if they never changed
	orders   []*fetch.QueueOrder // what the loop follows
	full     bool                // the log says that there are too many queues
	logged   []string            // the queues of the last log line
}

// followQueues is the pass of the duty that makes the record, the loop and Sidekiq's readers follow the
// changes of the queues.
func (s *shard) followQueues(ctx context.Context) (next time.Duration, err error) {
	f, queues := &s.follower, s.launcher.queues
	if err := f.link.Check(ctx); err != nil {
		return 0, err
	}
	if queues.patterns() && time.Since(f.readAt) >= queuesEvery {
		if err := s.readQueues(ctx); err != nil {
			return 0, f.link.Excused(err)
		}
	}
	queues.turnIfDue(time.Now())
	session := s.session.Load()
	orders, named, unserved := s.queues.toServe()
	// Again from time to time once there was a change: a failover may have lost it.
	if unserved || !f.servedAt.IsZero() && time.Since(f.servedAt) >= queuesEvery {
		served, err := session.Serve(ctx, f.link, s.keys, named, nil)
		if err != nil || !served {
			return queuesSoon, f.link.Excused(err)
		}
		s.queues.confirm()
		f.servedAt = time.Now()
	}
	if !slices.Equal(orders, f.orders) {
		if err := s.space.Serve(ctx, orders); err != nil {
			return 0, nil //nolint:nilerr // the process ends
		}
		f.orders = orders
	}
	taken := namesOf(orders)
	s.logQueues(taken)
	gone := slices.DeleteFunc(named, func(name string) bool { return slices.Contains(taken, name) })
	if len(gone) == 0 {
		if queues.patterns() || !f.servedAt.IsZero() {
			return queuesEvery, nil
		}
		return time.Hour, nil // or when there is a change
	}
	return queuesSoon, f.link.Excused(s.dropQueues(ctx, session, gone))
}

// dropQueues removes the queues that have left from the record, each when nothing of it is in flight and its
// working list is empty.
func (s *shard) dropQueues(ctx context.Context, session *fetch.Session, gone []string) error {
	left, err := s.space.Left(ctx, gone)
	if err != nil {
		return nil //nolint:nilerr // the process ends
	}
	for _, name := range left {
		rest := slices.DeleteFunc(s.queues.forRecord(), func(other string) bool { return other == name })
		served, err := session.Serve(ctx, s.follower.link, s.keys, rest, []string{name})
		if err != nil {
			return err
		}
		if !served {
			continue // its list has a job, or the session has ended
		}
		s.queues.drop(name)
		s.follower.servedAt = time.Now()
		if err := s.space.Drop(ctx, []string{name}); err != nil {
			return nil //nolint:nilerr // the process ends
		}
	}
	return nil
}

// readQueues reads the next names of queues. After the last page it lets go the queues that are gone: their
// names are deleted, and they are empty.
func (s *shard) readQueues(ctx context.Context) error {
	f := &s.follower
	if f.cursor == "" {
		f.cursor, f.seen = lua.FirstPage, make(map[string]bool)
	}
	for range maxNamePages {
		page, err := lua.NamePage(s.keys.Queues(), f.cursor).Do(ctx, f.link)
		if err != nil {
			f.cursor = ""
			return fmt.Errorf("read the names of the queues: %w", err)
		}
		for _, name := range page.Names {
			if len(f.seen) < maxMatching && job.CheckQueue(name) == nil && s.launcher.queues.matches(name) {
				f.seen[name] = true
			}
		}
		if f.cursor = page.Next; f.cursor == lua.LastPage {
			return s.readAll(ctx)
		}
	}
	f.readAt = time.Now()
	s.queues.find(f.seen, nil)
	return nil
}

// readAll ends a reading of all names.
func (s *shard) readAll(ctx context.Context) error {
	f := &s.follower
	f.cursor, f.readAt = "", time.Now()
	gone := s.queues.missing(f.seen)
	if len(gone) > 0 {
		lengths, err := lua.Lengths(s.keys.QueueLists(gone)).Do(ctx, f.link)
		if err != nil {
			return fmt.Errorf("read whether queues are empty: %w", err)
		}
		for i := len(gone) - 1; i >= 0; i-- {
			if lengths[i] > 0 { // a producer that writes no names has pushed to it
				gone = slices.Delete(gone, i, i+1)
			}
		}
	}
	s.queues.find(f.seen, gone)
	return nil
}

// logQueues logs a change of the queues, and when there are more than the process can take.
func (s *shard) logQueues(names []string) {
	f := &s.follower
	except := func(names, others []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
	}
	added, removed := except(names, f.logged), except(f.logged, names)
	if len(added)+len(removed) > 0 {
		f.logged = names
		level := slog.LevelInfo
		if f.full {
			level = slog.LevelDebug // they take turns
		}
		s.log.Log(context.Background(), level, "queues changed", "added", firstNames(added), "removed", firstNames(removed), "queues", len(names))
		s.changed.pull()
	}
	untaken := s.launcher.queues.leftOut()
	if untaken > 0 && !f.full {
		s.log.Warn("too many queues match; they are taken in turns", "not_taken", untaken, "most", lua.MaxQueues,
			"advice", "divide the queues among workers by narrower patterns, and delete the names of queues that are not used any more")
	}
	f.full = untaken > 0
}
