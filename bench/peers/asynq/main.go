// Command asynq is the subject that measures asynq, a job system on Redis written in Go.
package main

import "github.com/belayq/belay/bench/peers/measure"

// system is asynq. It takes part in every measure.
var system = measure.System{
	Name:   "asynq",
	Module: "github.com/hibiken/asynq",
	Open:   open,
}

func main() { measure.Main(system) }
