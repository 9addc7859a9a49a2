package belay

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/belayq/belay/fetch"
)

// Capsule gives some queues processors of their own within the server, as Sidekiq's capsules do: a slow or dangerous kind of
// job then cannot keep the rest from running, and Concurrency(1) runs one at a time in this process. Its options are
// Concurrency (the server's without it), Queues and QueueWeight; all else is said to the server, and holds for all of its
// capsules: they have its handlers, middleware and hooks. The server's own queues are "default" unless Queues names them.
//
//	belay.NewServer(client, belay.Queues("critical", "default"), belay.Concurrency(20),
//		belay.Capsule("unsafe", belay.Concurrency(1), belay.Queues("thumbnails")))
//
// A queue belongs to one capsule. In Redis each capsule is a worker process of its own, with an identity of its own; so
// `belay status` and Sidekiq's dashboard list it beside the server, labelled with its name, and whoever quiets or stops a
// capsule there does so to that capsule alone.
func Capsule(name string, options ...ServerOption) ServerOption {
	return func(c *serverConfig) {
		var its serverConfig
		for _, option := range options {
			option(&its)
		}
		for _, err := range its.wrong {
			c.wrong = append(c.wrong, fmt.Errorf("capsule %q: %w", name, err))
		}
		c.capsules = append(c.capsules, capsule{name: name, concurrency: its.Concurrency, queues: its.Queues})
		its.Concurrency, its.Queues, its.wrong = 0, nil, nil
		if !reflect.ValueOf(its).IsZero() {
			c.wrong = append(c.wrong, fmt.Errorf("capsule %q: its options are Concurrency, Queues and QueueWeight; the others are the server's", name))
		}
	}
}

// A capsule is what was said of one.
type capsule struct {
	name        string
	concurrency int
	queues      []fetch.Queue
}

// ownCapsule is what Sidekiq calls the capsule of all that is in none.
const ownCapsule = "default"

// all are the server itself, as a capsule, and its capsules.
func (c *serverConfig) all() []capsule {
	own := capsule{name: ownCapsule, concurrency: c.Concurrency, queues: c.Queues}
	if len(own.queues) == 0 {
		own.queues = []fetch.Queue{{Name: "default"}}
	}
	return append([]capsule{own}, c.capsules...)
}

// checkCapsules names everything that is wrong with how queues are shared out.
func (c *serverConfig) checkCapsules() error {
	var wrong []error
	names, owner := make(map[string]bool), make(map[string]string)
	for i, its := range c.all() {
		switch {
		case its.name == "":
			wrong = append(wrong, errors.New("a capsule has no name"))
		case i > 0 && its.name == ownCapsule:
			wrong = append(wrong, errors.New(`capsule "default": this is the server itself; give its queues by Queues`))
		case names[its.name]:
			wrong = append(wrong, fmt.Errorf("capsule %q: there are two of that name", its.name))
		case len(its.queues) == 0:
			wrong = append(wrong, fmt.Errorf("capsule %q: it has no queues", its.name))
		}
		names[its.name] = true
		for _, queue := range its.queues {
			if other, taken := owner[queue.Name]; taken && other != its.name {
				wrong = append(wrong, fmt.Errorf("queue %q is in the capsules %q and %q: it can be in one only", queue.Name, other, its.name))
			}
			owner[queue.Name] = its.name
		}
	}
	return errors.Join(wrong...)
}
