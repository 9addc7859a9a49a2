package belay

import "github.com/belayq/belay/launcher"

// A Capsule gives some queues processors of their own within a server, as Sidekiq's capsules do: a slow or
// dangerous kind of job then cannot delay the others, and Concurrency 1 runs one at a time in this process.
// Capsules share the server's handlers, middleware and callbacks. A queue belongs to one capsule.
//
//	belay.ServerConfig{Queues: belay.Queues("critical", "default"), Concurrency: 20,
//		Capsules: []belay.Capsule{{Name: "unsafe", Queues: belay.Queues("thumbnails"), Concurrency: 1}}}
//
// In Redis each capsule is a worker process of its own, with an identity of its own; so `belay status` and
// Sidekiq's dashboard list it beside the server, labelled with its name, and an operator quiets or stops each
// capsule by itself.
type Capsule = launcher.Capsule
