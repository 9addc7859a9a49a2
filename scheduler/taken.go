package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// rememberTaken is how long the Poller uses a reading of the fleet's queues. Jobs whose destination depends
// on them are rare, and a deploy that gives workers a new queue takes longer.
const rememberTaken = 10 * time.Second

// taken has the queues that workers of Belay take, and when they were read.
type taken struct {
	at     time.Time
	queues map[string]bool
}

// takenByBelay reports whether a worker of Belay takes a queue. For a queue that this process does not take,
// it reads the records of the fleet, once in rememberTaken: two calls for each 256 processes.
func (p *Poller) takenByBelay(ctx context.Context, queue string) (bool, error) {
	if p.cfg.Queues != nil && slices.Contains(p.cfg.Queues(), queue) {
		return true, nil
	}
	if now := time.Now(); now.Sub(p.taken.at) >= rememberTaken || p.taken.queues == nil {
		queues, err := p.readTaken(ctx)
		if err != nil {
			return false, fmt.Errorf("read the queues of the fleet: %w", err)
		}
		p.taken = taken{now, queues}
	}
	return p.taken.queues[queue], nil
}

func (p *Poller) readTaken(ctx context.Context) (map[string]bool, error) {
	queues := make(map[string]bool)
	for first := 0; ; first += lua.MaxItems {
		identities, err := lua.Texts(p.link.Do(ctx, driver.Command("ZRANGE", p.cfg.Keys.Alive(), strconv.Itoa(first), strconv.Itoa(first+lua.MaxItems-1)))[0])
		if err != nil {
			return nil, err
		}
		if len(identities) == 0 {
			return queues, nil
		}
		records, _, err := p.cfg.Keys.ReadRecords(ctx, p.link, identities) // the queues of one that cannot be read are unknown
		if err != nil {
			return nil, err
		}
		for _, record := range records {
			for _, queue := range record.Queues {
				queues[queue] = true
			}
		}
	}
}
