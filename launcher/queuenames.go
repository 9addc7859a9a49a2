package launcher

import (
	"context"
	"maps"
	"slices"
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
	// mostNamed bounds the names in one line. A program may have hundreds of classes.
	mostNamed = 20
)

// Classes returns the names of the classes that have a handler, sorted, including AnyClass if it has one.
func (l *Launcher) Classes() []string {
	return slices.Sorted(maps.Keys(l.handlers))
}

// warnOfQueues logs, once, queues that are probably misspelled or forgotten. It does not delay the worker;
// end stops it and waits for it. It only warns, because both can be intended: another process may take the
// queue, and a queue exists only after its first job.
func (l *Launcher) warnOfQueues(ctx context.Context) (end func()) {
	taken := make(map[string]bool)
	for _, queue := range l.queues {
		taken[queue] = true
	}
	missed, classes := make(map[string]bool), []string{}
	unknown := maps.Clone(taken)
	for class, handler := range l.handlers {
		about := handler.class
		delete(unknown, about.Queue)
		delete(unknown, about.RetryQueue)
		if about.Queue != "" && !taken[about.Queue] {
			missed[about.Queue] = true
			classes = append(classes, class)
		}
	}
	if len(missed) > 0 {
		slices.Sort(classes)
		l.cfg.Log.Warn().Strs("queues", firstNames(slices.Sorted(maps.Keys(missed)))).Strs("classes", firstNames(classes)).
			Str("advice", "take the queue too, unless another process does").Msg(QueuesNotTaken)
	}
	if len(l.cfg.Queues) == 0 {
		delete(unknown, "default") // the implicit queue cannot be misspelled
	}
	ctx, cancel := context.WithTimeout(ctx, nameLookTimeout)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.warnOfUnknown(ctx, slices.Sorted(maps.Keys(unknown)))
	}()
	return func() {
		cancel()
		<-done
	}
}

// warnOfUnknown logs which of the queues Redis does not list.
func (l *Launcher) warnOfUnknown(ctx context.Context, queues []string) {
	if len(queues) == 0 {
		return
	}
	key := l.keys.Queues()
	calls := make([]driver.Call, len(queues))
	for i, queue := range queues {
		calls[i] = driver.Command("SISMEMBER", key, queue)
	}
	var unknown []string
	for i, reply := range l.cfg.Client.Do(ctx, calls...) {
		if listed, ok := reply.Value.(int64); reply.Err == nil && ok && listed == 0 {
			unknown = append(unknown, queues[i])
		}
	}
	if len(unknown) > 0 {
		l.cfg.Log.Warn().Strs("queues", firstNames(unknown)).
			Str("advice", "check its spelling: no job was ever pushed to it, and no handled class uses it").Msg(QueuesUnknown)
	}
}

// firstNames returns the names that one line shows.
func firstNames(names []string) []string { return names[:min(len(names), mostNamed)] }
