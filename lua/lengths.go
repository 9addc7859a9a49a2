package lua

import (
	"context"
	"slices"

	"github.com/belayq/belay/driver"
)

var lengthsScript = load("lengths")

// Lengths returns how many entries each of these lists has, at one instant; -1 for a key that is not a list.
// At most 2*MaxQueues+1 lists.
func Lengths(lists []string) Ask[[]int] {
	return asking(lengthsScript, lists, nil, readNumbers)
}

// A QueueSize is how many jobs a queue has; -1 if their key is not a list.
type QueueSize struct {
	Name                 string
	Waiting, Quarantined int
}

// MaxQueueSizes is about how many queues QueueSizes reads at most. They take Redis some 30 ms, in steps of less
// than one: 3 % of its time for a dashboard that reads them every second, and more would not be its due.
const MaxQueueSizes = 20_000

// QueueSizes reads how many jobs each queue has: in each round trip the names of a page, and the sizes of the
// page before. It stops after MaxQueueSizes queues, which are the same ones each time as long as no queue comes
// or goes. The sizes are not of one instant.
func (k Keys) QueueSizes(ctx context.Context, client driver.Client) (sizes []QueueSize, err error) {
	known, names, next := make(map[string]bool), []string(nil), NamePage(k.Queues(), FirstPage)
	for more := true; more || len(names) > 0; {
		asks := k.askSizes(names)
		calls := CallsOf(asks)
		if more {
			calls = append(calls, next.Call)
		}
		replies := client.Do(ctx, calls...)
		for n, ask := range asks {
			lengths, err := ask.Read(replies[n])
			if err != nil {
				return nil, err
			}
			for at := 0; at+1 < len(lengths) && len(names) > 0; at += 2 {
				sizes, names = append(sizes, QueueSize{names[0], lengths[at], lengths[at+1]}), names[1:]
			}
		}
		if !more {
			break
		}
		page, err := next.Read(replies[len(asks)])
		if err != nil {
			return nil, err
		}
		for _, name := range page.Names {
			if !known[name] { // Redis may list a name twice
				known[name], names = true, append(names, name)
			}
		}
		next, more = NamePage(k.Queues(), page.Next), page.Next != LastPage && len(known) < MaxQueueSizes
	}
	return sizes, nil
}

// askSizes asks for the lengths of the lists of each queue.
func (k Keys) askSizes(queues []string) (asks []Ask[[]int]) {
	for chunk := range slices.Chunk(queues, MaxQueues) {
		lists := make([]string, 0, 2*len(chunk))
		for _, queue := range chunk {
			lists = append(lists, k.Queue(queue), k.Quarantine(queue))
		}
		asks = append(asks, Lengths(lists))
	}
	return asks
}
