package launcher

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

const (
	// QueuesNotTaken is the log message about classes that have a handler and a queue that their process does not take.
	QueuesNotTaken = "queue of a handled class is not taken"
	// QueuesUnknown is the log message about queues that are taken, to which no job was ever pushed, and
	// which no handled class uses.
	QueuesUnknown = "taken queue does not exist"

	// nameLookTimeout bounds the one call to Redis. If Redis is away the worker logs that, and this check is
	// skipped.
	nameLookTimeout = 5 * time.Second
	// mostNamed bounds the names in one line. A program may have hundreds of classes.
	mostNamed = 20
)

// Classes returns the names of the classes that have a handler, sorted, including AnyClass if it has one.
func (g *Group) Classes() []string {
	return slices.Sorted(maps.Keys(g.launchers[0].handlers)) // the same for all launchers
}

// warnOfQueues logs, once, queues that are probably misspelled or forgotten. It does not delay the worker;
// end stops it and waits for it. It only warns, because both can be intended: another process may take the
// queue, and a queue exists only after its first job.
func (g *Group) warnOfQueues(ctx context.Context) (end func()) {
	taken := make(map[string]bool)
	g.each(func(l *Launcher) {
		for _, queue := range l.queues.Names() {
			taken[queue] = true
		}
	})
	missed, classes := make(map[string]bool), []string{}
	unknown := maps.Clone(taken)
	for class, handler := range g.launchers[0].handlers {
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
		g.logger().Warn().Strs("queues", firstNames(slices.Sorted(maps.Keys(missed)))).Strs("classes", firstNames(classes)).
			Str("advice", "take the queue too, unless another process does").Msg(QueuesNotTaken)
	}
	if len(g.cfg.Queues) == 0 {
		delete(unknown, "default") // the implicit queue cannot be misspelled
	}
	ctx, cancel := context.WithTimeout(ctx, nameLookTimeout)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.warnOfUnknown(ctx, slices.Sorted(maps.Keys(unknown)))
	}()
	return func() {
		cancel()
		<-done
	}
}

// warnOfUnknown logs which of the queues Redis does not list.
func (g *Group) warnOfUnknown(ctx context.Context, queues []string) {
	if len(queues) == 0 {
		return
	}
	key := lua.NewKeys(g.cfg.Prefix).Queues()
	calls := make([]driver.Call, len(queues))
	for i, queue := range queues {
		calls[i] = driver.Command("SISMEMBER", key, queue)
	}
	var unknown []string
	for i, reply := range g.cfg.Client.Do(ctx, calls...) {
		if listed, ok := reply.Value.(int64); reply.Err == nil && ok && listed == 0 {
			unknown = append(unknown, queues[i])
		}
	}
	if len(unknown) > 0 {
		g.logger().Warn().Strs("queues", firstNames(unknown)).
			Str("advice", "check its spelling: no job was ever pushed to it, and no handled class uses it").Msg(QueuesUnknown)
	}
}

func (g *Group) logger() *zerolog.Logger {
	nop := zerolog.Nop()
	return cmp.Or(g.cfg.Log, &nop)
}

// firstNames returns the names that one line shows.
func firstNames(names []string) []string { return names[:min(len(names), mostNamed)] }
