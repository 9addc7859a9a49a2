package launcher

import (
	"errors"
	"fmt"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/lua"
)

// A Capsule is a set of queues with a concurrency of its own. All capsules of a process share its session
// and its processors. Package launcher checks the configuration; package fetch applies the limit, in
// Share.idle and intake.spare.
type Capsule struct {
	// Name is unique among the capsules.
	Name string
	// Concurrency is the maximum number of its jobs that run at once. Default: the process' Concurrency.
	Concurrency int
	// Queues are the queues of the capsule; each belongs to one capsule only.
	Queues []fetch.Queue
}

// ownCapsule is Sidekiq's name for the capsule of all queues that are in no other capsule.
const ownCapsule = "default"

// allCapsules returns the capsules of a process. The first one has the queues that are in no other capsule.
func (c Config) allCapsules() []Capsule {
	return append([]Capsule{{Name: ownCapsule, Concurrency: c.Concurrency, Queues: c.Queues}}, c.Capsules...)
}

// newShares returns the capsules in the form that the loop needs; the first one is the worker itself. Its
// error names everything that is wrong with them.
func newShares(all []Capsule) ([]fetch.Share, error) {
	var errs []error
	var shares []fetch.Share
	names, owner := make(map[string]bool), make(map[string]string)
	for i, its := range all {
		switch {
		case its.Name == "":
			errs = append(errs, errors.New("a capsule has no name"))
		case i > 0 && its.Name == ownCapsule:
			errs = append(errs, errors.New(`capsule "default": this is the server itself; give its queues by Queues`))
		case names[its.Name]:
			errs = append(errs, fmt.Errorf("capsule %q: there are two of that name", its.Name))
		}
		names[its.Name] = true
		for _, queue := range its.Queues {
			if capsule, taken := owner[queue.Name]; taken && capsule != its.Name {
				errs = append(errs, fmt.Errorf("queue %q is in the capsules %q and %q: it can be in one only", queue.Name, capsule, its.Name))
			}
			owner[queue.Name] = its.Name
		}
		order, err := newOrder(its.Queues)
		if i > 0 {
			err = its.named(err)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		shares = append(shares, fetch.Share{Order: order, Concurrency: its.Concurrency})
	}
	if len(owner) > lua.MaxQueues && len(all) > 1 {
		errs = append(errs, fmt.Errorf("%d queues in all capsules: one process serves at most %d", len(owner), lua.MaxQueues))
	}
	return shares, errors.Join(errs...)
}

// named returns the errors of one further capsule; err is the error of its queues.
func (c Capsule) named(err error) error {
	if len(c.Queues) == 0 {
		err = errors.New("it has no queues")
	}
	if c.Concurrency < 1 || c.Concurrency > maxConcurrency {
		err = errors.Join(err, fmt.Errorf(wrongConcurrency, c.Concurrency, maxConcurrency))
	}
	if err != nil {
		err = fmt.Errorf("capsule %q: %w", c.Name, err)
	}
	return err
}
