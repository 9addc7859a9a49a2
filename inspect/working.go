package inspect

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A WorkingList is the jobs of one queue that one process of Belay answers for: in hand, or lost with a process that
// has died and not yet recovered.
type WorkingList struct {
	Identity string `json:"identity"`
	Queue    string `json:"queue"`
	// Size is how many jobs are in it; -1 when its key holds something else than a list.
	Size int `json:"size"`
}

// Working lists the working lists of the processes of Belay that are alive or have lapsed, up to 1,000 of these, empty
// lists included. The sizes of one process are of one instant. A process that died and whose lists were found empty is
// not among them.
func (i *Inspector) Working(ctx context.Context) ([]WorkingList, error) {
	var r reading
	alive := i.driver.Do(ctx, driver.Command("ZRANGE", i.keys.Alive(), "0", strconv.Itoa(mostShown-1)))[0]
	if alive.Err != nil {
		return nil, fmt.Errorf("read who is alive: %w", alive.Err)
	}
	lists := []WorkingList{}
	for page := range slices.Chunk(r.texts("alive", alive), processesAtOnce) {
		found, err := i.workingPage(ctx, page)
		if err != nil {
			return nil, err
		}
		lists = append(lists, found...)
	}
	return lists, nil
}

func (i *Inspector) workingPage(ctx context.Context, page []string) ([]WorkingList, error) {
	calls := make([]driver.Call, len(page))
	for n, identity := range page {
		calls[n] = i.keys.ReadRecord(identity)
	}
	var lists []WorkingList
	var asks []lua.Ask[[]int]
	for n, reply := range i.do(ctx, calls) {
		record, ok, err := lua.RecordOf(reply)
		if err != nil {
			return nil, fmt.Errorf("read the record of %s: %w", page[n], err)
		}
		if !ok || len(record.Queues) == 0 {
			continue
		}
		var keys []string
		for _, queue := range record.Queues[:min(len(record.Queues), lua.MostQueues)] {
			lists = append(lists, WorkingList{Identity: page[n], Queue: queue})
			keys = append(keys, i.keys.Working(queue, page[n]))
		}
		asks = append(asks, lua.Lengths(keys))
	}
	return lists, i.lengths(ctx, lists, asks)
}

// lengths fills in the sizes of lists, which asks ask for in the same order.
func (i *Inspector) lengths(ctx context.Context, lists []WorkingList, asks []lua.Ask[[]int]) error {
	calls := make([]driver.Call, len(asks))
	for n, ask := range asks {
		calls[n] = ask.Call
	}
	at := 0
	for n, reply := range i.do(ctx, calls) {
		sizes, err := asks[n].Read(reply)
		if err != nil {
			return fmt.Errorf("read the lengths of working lists: %w", err)
		}
		for _, size := range sizes {
			lists[at].Size = size
			at++
		}
	}
	return nil
}
