package launcher

import (
	"errors"
	"fmt"

	"github.com/belayq/belay/fetch"
)

// A Capsule is queues that have processors of their own within a Group.
type Capsule struct {
	// Name is its own, and "capsule:" and the name its label in Sidekiq's dashboard.
	Name string
	// Concurrency is how many of its jobs run at once. The Group's.
	Concurrency int
	// Queues are in no other capsule.
	Queues []fetch.Queue
}

// ownCapsule is what Sidekiq calls the capsule of all that is in none.
const ownCapsule = "default"

// allCapsules are the worker itself, as a capsule, and its capsules.
func allCapsules(cfg Config, capsules []Capsule) []Capsule {
	own := Capsule{Name: ownCapsule, Concurrency: cfg.Concurrency, Queues: cfg.Queues}
	if len(own.Queues) == 0 {
		own.Queues = []fetch.Queue{{Name: "default"}}
	}
	return append([]Capsule{own}, capsules...)
}

// checkCapsules names everything that is wrong with how queues are shared out. The first is the worker itself.
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
