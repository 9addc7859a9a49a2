package launcher

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/lua"
)

// A Capsule is a set of queues with a concurrency of its own. All capsules of a process share its session
// and its processors.
type Capsule struct {
	// Name is its own.
	Name string
	// Concurrency is how many of its jobs run at once. The process' Concurrency.
	Concurrency int
	// Queues are in no other capsule.
	Queues []fetch.Queue
}

// ownCapsule is what Sidekiq calls the capsule of all queues that are in no other.
const ownCapsule = "default"

// allCapsules returns the capsules of a process: first that of the queues that are in no other.
func (c Config) allCapsules() []Capsule {
	return append([]Capsule{{Name: ownCapsule, Concurrency: c.Concurrency, Queues: c.Queues}}, c.Capsules...)
}

// newCapsules builds what the loop needs of the capsules, or names everything that is wrong with them.
func newCapsules(all []Capsule) ([]fetch.Capsule, error) {
	wrong := []error{checkCapsules(all)}
	var capsules []fetch.Capsule
	queues := 0
	for i, its := range all {
		if i > 0 && len(its.Queues) == 0 {
			continue // named by checkCapsules
		}
		order, err := fetch.NewOrder(its.Queues, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
		if i > 0 && (its.Concurrency < 1 || its.Concurrency > mostConcurrency) {
			err = errors.Join(err, fmt.Errorf(wrongConcurrency, its.Concurrency, mostConcurrency))
		}
		if err != nil && i > 0 {
			err = fmt.Errorf("capsule %q: %w", its.Name, err)
		}
		wrong = append(wrong, err)
		if err == nil {
			queues += len(order.Names())
			capsules = append(capsules, fetch.Capsule{Order: order, Concurrency: its.Concurrency})
		}
	}
	if queues > lua.MostQueues && len(all) > 1 {
		wrong = append(wrong, fmt.Errorf("%d queues in all capsules: one process serves at most %d", queues, lua.MostQueues))
	}
	return capsules, errors.Join(wrong...)
}

// checkCapsules names everything that is wrong with how queues are shared out. The first is the worker
// itself.
func checkCapsules(all []Capsule) error {
	var wrong []error
	names, owner := make(map[string]bool), make(map[string]string)
	for i, its := range all {
		switch {
		case its.Name == "":
			wrong = append(wrong, errors.New("a capsule has no name"))
		case i > 0 && its.Name == ownCapsule:
			wrong = append(wrong, errors.New(`capsule "default": this is the server itself; give its queues by Queues`))
		case names[its.Name]:
			wrong = append(wrong, fmt.Errorf("capsule %q: there are two of that name", its.Name))
		case len(its.Queues) == 0:
			wrong = append(wrong, fmt.Errorf("capsule %q: it has no queues", its.Name))
		}
		names[its.Name] = true
		for _, queue := range its.Queues {
			if other, taken := owner[queue.Name]; taken && other != its.Name {
				wrong = append(wrong, fmt.Errorf("queue %q is in the capsules %q and %q: it can be in one only", queue.Name, other, its.Name))
			}
			owner[queue.Name] = its.Name
		}
	}
	return errors.Join(wrong...)
}
