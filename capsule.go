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
// A queue belongs to one capsule. In Redis the server with all its capsules is one worker process: `belay status` and
// Sidekiq's dashboard list it once, with all of its queues, and quiet or stop it as a whole.
func Capsule(name string, options ...ServerOption) ServerOption {
	return func(c *serverConfig) {
		var its serverConfig
		its.hear(options)
		for _, err := range its.wrong {
			c.wrong = append(c.wrong, fmt.Errorf("capsule %q: %w", name, err))
		}
		c.Capsules = append(c.Capsules, launcher.Capsule{Name: name, Concurrency: its.Concurrency, Queues: its.Queues})
		its.Concurrency, its.Queues, its.wrong = 0, nil, nil
		if !reflect.ValueOf(its).IsZero() {
			c.wrong = append(c.wrong, fmt.Errorf("capsule %q: its options are Concurrency, Queues and QueueWeight; the others are the server's", name))
		}
	}
}
