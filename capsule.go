package belay

import (
	"fmt"
	"reflect"

	"github.com/belayq/belay/launcher"
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
		its.hear(options)
		for _, err := range its.wrong {
			c.wrong = append(c.wrong, fmt.Errorf("capsule %q: %w", name, err))
		}
		c.capsules = append(c.capsules, launcher.Capsule{Name: name, Concurrency: its.Concurrency, Queues: its.Queues})
		its.Concurrency, its.Queues, its.wrong = 0, nil, nil
		if !reflect.ValueOf(its).IsZero() {
			c.wrong = append(c.wrong, fmt.Errorf("capsule %q: its options are Concurrency, Queues and QueueWeight; the others are the server's", name))
		}
	}
}
