package inspect

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A WorkingList holds the jobs that one process of Belay took from one queue and has not settled. If the
// process died, a janitor recovers them.
type WorkingList struct {
	Identity string `json:"identity"`
	Queue    string `json:"queue"`
	// Size is its length; -1 if its key is not a list.
	Size int `json:"size"`
}

// Working returns the working lists, empty ones included, of up to 1,000 processes of Belay that are alive or
// lapsed. The sizes of one process are of one instant. Dead processes whose lists were found empty are not
// included.
func (i *Inspector) Working(ctx context.Context) ([]WorkingList, error) {
	var r reading
	alive := i.driver.Do(ctx, driver.Command("ZRANGE", i.keys.Alive(), "0", strconv.Itoa(maxShown-1)))[0]
	if alive.Err != nil {
		return nil, fmt.Errorf("read the living processes: %w", alive.Err)
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
	records, calls := lua.AskEach(page, i.keys.ReadRecord)
	var lists []WorkingList
	var asks []lua.Ask[[]int]
	for n, reply := range i.do(ctx, calls) {
		record, err := records[n].Read(reply)
		if err != nil {
			return nil, fmt.Errorf("read the record of %s: %w", page[n], err)
		}
		if record == nil || len(record.Queues) == 0 {
			continue
		}
		var keys []string
		for _, queue := range record.Queues[:min(len(record.Queues), lua.MaxQueues)] {
			lists = append(lists, WorkingList{Identity: page[n], Queue: queue})
			keys = append(keys, i.keys.Working(queue, page[n]))
		}
		asks = append(asks, lua.Lengths(keys))
	}
	at := 0
	for n, reply := range i.do(ctx, lua.CallsOf(asks)) {
		sizes, err := asks[n].Read(reply)
		if err != nil {
			return nil, fmt.Errorf("read the lengths of working lists: %w", err)
		}
		for _, size := range sizes {
			lists[at].Size = size
			at++
		}
	}
	return lists, nil
}
