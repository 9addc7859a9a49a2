package lua

import (
	"context"
	"fmt"
	"strconv"

	"github.com/belayq/belay/driver"
)

const (
	// Protocol is the version of jobs and keys that this program's workers understand. Every process record
	// has it, so that a producer can find out whether all workers of a fleet support a feature. It rises with
	// each feature that an older worker would handle wrongly.
	Protocol = NextProtocol
	// NextProtocol is the first whose workers enqueue the next jobs of a job that is done. An older one would
	// drop them.
	NextProtocol = 3
	// BatchProtocol is the first whose workers count the ends of a batch's members. An older one would let the
	// batch wait for ever.
	BatchProtocol = 3
	// ExpiryProtocol is the first whose workers start no job after its ExpiresIn or Deadline. A push requires
	// it, because a late start would show nowhere.
	ExpiryProtocol = 2
	// CancelProtocol is the first whose workers obey the marks of cancelled jobs.
	CancelProtocol = 2
	// FirstProtocol is what all workers understand, those without a number in their record included.
	FirstProtocol = 1
)

// MinProtocol returns the lowest protocol of the processes that are registered and not declared dead, and
// the identity of one that has it, which is empty if there is none. Ruby's processes have no record of ours
// and do not count. Processes that lapsed count: they may renew their session. It reads pages of MaxItems
// processes, two round trips each.
func (k Keys) MinProtocol(ctx context.Context, client driver.Client) (lowest int, identity string, err error) {
	for first := 0; ; first += MaxItems {
		// A score of 0 is that of a process that was declared dead.
		names, err := Texts(client.Do(ctx, driver.Command("ZRANGEBYSCORE", k.Alive(), "(0", "+inf",
			"LIMIT", strconv.Itoa(first), strconv.Itoa(MaxItems)))[0])
		if err != nil || len(names) == 0 {
			return lowest, identity, err
		}
		calls := make([]driver.Call, len(names))
		for i, name := range names {
			calls[i] = driver.Command("HGET", k.Record(name), "protocol")
		}
		for i, reply := range client.Do(ctx, calls...) {
			if reply.Err != nil {
				return lowest, identity, fmt.Errorf("read the protocol of %s: %w", names[i], reply.Err)
			}
			text, _ := reply.Value.(string)
			protocol, err := strconv.Atoi(text)
			if err != nil {
				protocol = FirstProtocol // a worker from before the number
			}
			if protocol < lowest || identity == "" {
				lowest, identity = protocol, names[i]
			}
		}
	}
}
