package belay

import "github.com/belayq/belay/launcher"

// A Capsule gives some queues processors of their own within a server, as Sidekiq's capsules do: a slow or
// dangerous kind of job then cannot delay the others, and Concurrency 1 runs one at a time in this process.
// Capsules share the server's handlers, middleware and callbacks. A queue belongs to one capsule.
//
//	belay.ServerConfig{Queues: belay.Queues("critical", "default"), Concurrency: 20,
//		Capsules: []belay.Capsule{{Name: "unsafe", Queues: belay.Queues("thumbnails"), Concurrency: 1}}}
//
// In Redis the server with all its capsules is one worker process: `belay status` and Sidekiq's dashboard list
// it once, with all of its queues, and quiet or stop it as a whole.
type Capsule = launcher.Capsule
