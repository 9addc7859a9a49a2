// Command river is the subject that measures River, a job system on PostgreSQL written in Go.
package main

import "github.com/belayq/belay/bench/peers/measure"

// system is River.
var system = measure.System{
	Name:    "River",
	Module:  "github.com/riverqueue/river",
	Open:    open,
	Refuses: refuses,
}

func main() { measure.Main(system) }

// refuses says why River has no figure in a measure.
func refuses(name string) string {
	switch name {
	case "victim", "survivor":
		return "River takes a killed process's job back once it has been running for RescueStuckJobsAfter, an hour by default"
	default:
		return ""
	}
}
