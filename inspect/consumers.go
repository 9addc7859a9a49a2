package inspect

import (
	"context"
	"slices"
	"strconv"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// WithoutConsumer returns the queues from which no living process of Belay or Sidekiq takes jobs, in the
// given order. A process whose queues are unknown may take any. With more than 1,000 processes it returns
// none, because it would have to read too many. It reads processes in pages and stops once each queue has a
// consumer.
func (i *Inspector) WithoutConsumer(ctx context.Context, queues []string) ([]string, error) {
	var r reading
	replies := i.do(ctx, []driver.Call{
		lua.AskTime,
		driver.Command("SRANDMEMBER", i.keys.Processes(), strconv.Itoa(mostShown+1)),
		driver.Command("ZRANGE", i.keys.Alive(), "0", strconv.Itoa(mostShown)),
	})
	now := r.time(replies[0])
	names := sorted(append(r.texts("processes", replies[1]), r.texts("alive", replies[2])...))
	if len(names) > mostShown {
		return nil, r.err
	}
	left := slices.Clone(queues)
	for page := range slices.Chunk(names, processesAtOnce) {
		for _, p := range i.processPage(ctx, &r, page, now) {
			if p.State == StateAlive && !p.Quiet {
				left = slices.DeleteFunc(left, func(queue string) bool { return len(p.Queues) == 0 || slices.Contains(p.Queues, queue) })
			}
		}
		if r.err != nil || len(left) == 0 {
			break
		}
	}
	if r.err != nil || len(r.refused) > 0 { // an unreadable process may be a consumer
		return nil, r.err
	}
	return left, nil
}
