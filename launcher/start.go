package launcher

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belayq/belay/driver"
)

const (
	// QueuesNotTaken is the log message about classes that have a handler and a queue that their process
	// does not take.
	QueuesNotTaken = "queue of a handled class is not taken"
	// QueuesUnknown is the log message about queues that are taken, to which no job was ever pushed, and
	// which no handled class uses.
	QueuesUnknown = "taken queue does not exist"

	// nameLookTimeout bounds the one call to Redis. If Redis is away the worker logs that, and this check
	// is skipped.
	nameLookTimeout = 5 * time.Second
	// maxNamed bounds the names in one line. A program may have hundreds of classes.
	maxNamed = 20
)

// Classes returns the names of the classes that have a handler, sorted, including AnyClass if it has one.
func (l *Launcher) Classes() []string {
	return slices.Sorted(maps.Keys(l.handlers))
}

// warnOfQueues logs, once, queues that are probably misspelled or forgotten. It does not delay the worker;
// end stops it and waits for it. It only warns, because both can be intended: another process may take the
// queue, and a queue exists only after its first job.
func (l *Launcher) warnOfQueues(ctx context.Context) (end func()) {
	var missed, classes []string
	taken := l.Queues()
	unknown := slices.Clone(taken)
	for class, handler := range l.handlers {
		about := handler.class
		unknown = slices.DeleteFunc(unknown, func(queue string) bool { return queue == about.Queue || queue == about.RetryQueue })
		if about.Queue != "" && !slices.Contains(taken, about.Queue) && !l.queues.matches(about.Queue) {
			missed, classes = append(missed, about.Queue), append(classes, class)
		}
	}
	if len(missed) > 0 {
		l.cfg.Log.Warn(QueuesNotTaken,
			"queues", firstNames(missed), "classes", firstNames(classes), "advice", "take the queue too, unless another process does")
	}
	if len(l.cfg.Queues) == 0 { // the implicit queue cannot be misspelled
		unknown = slices.DeleteFunc(unknown, func(queue string) bool { return queue == "default" })
	}
	return Beside(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, nameLookTimeout)
		defer cancel()
		l.warnOfUnknown(ctx, unknown)
	})
}

// Beside calls run in a goroutine of its own. Its context ends with ctx, or when end is called, which waits
// until run has returned.
func Beside(ctx context.Context, run func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// warnOfUnknown logs which of the queues Redis does not list.
func (l *Launcher) warnOfUnknown(ctx context.Context, queues []string) {
	if len(queues) == 0 {
		return
	}
	unknown := slices.Clone(queues)
	for _, s := range l.shards {
		if len(unknown) == 0 {
			return
		}
		calls := make([]driver.Call, len(unknown))
		for i, queue := range unknown {
			calls[i] = driver.Command("SISMEMBER", s.keys.Queues(), queue)
		}
		var unlisted []string
		for i, reply := range s.lanes.chores.Do(ctx, calls...) {
			if listed, ok := reply.Value.(int64); reply.Err == nil && ok && listed == 0 {
				unlisted = append(unlisted, unknown[i])
			}
		}
		unknown = unlisted
	}
	if len(unknown) > 0 {
		l.cfg.Log.Warn(QueuesUnknown,
			"queues", firstNames(unknown), "advice", "check its spelling: no job was ever pushed to it, and no handled class uses it")
	}
}

// firstNames returns the names that one line shows, sorted.
func firstNames(names []string) []string {
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxNamed)]
}

// logStart logs the release, the queues and the Redis server. It runs before the first call to Redis,
// because an operator needs the line most when Redis does not answer.
func (l *Launcher) logStart() {
	fields := []any{"version", moduleVersion(), "queues", l.Queues(), "concurrency", l.Concurrency()}
	var servers []string
	for _, s := range l.shards {
		if client, tells := s.Client.(interface{ Server() string }); tells {
			servers = append(servers, client.Server())
		}
	}
	if len(servers) > 0 {
		fields = append(fields, "redis", strings.Join(slices.Compact(servers), " "))
	}
	l.cfg.Log.Info("starting", fields...)
}

var errClosed = errors.New("belay: the client is closed: open one, and close it after Run has returned")

// isClosed reports whether the client of this Launcher, or that of a shard, was closed. The Launcher's own
// connections would still work, but health checks and the release of idle waits would not. Not every driver
// can report it.
func (l *Launcher) isClosed() bool {
	return slices.ContainsFunc(l.shards, func(s *shard) bool {
		client, tells := s.Client.(interface{ Closed() bool })
		return tells && client.Closed()
	})
}
