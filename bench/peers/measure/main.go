package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/belayq/belay/bench/peers/talk"
)

// A task is one measure under way.
type task struct {
	talk.Task
	wire *talk.Wire
	peer Peer
}

// measures are the measures by name. Each says Ready before it does anything and returns the event that ends
// it.
var measures = map[string]func(*task, context.Context) (talk.Event, error){
	"drain":    (*task).drain,
	"enqueue":  (*task).enqueue,
	"bulk":     (*task).bulk,
	"push":     (*task).push,
	"latency":  (*task).latency,
	"schedule": (*task).schedule,
	"burst":    (*task).burst,
	"victim":   (*task).victim,
	"survivor": (*task).survivor,
}

// Main is a subject's whole main: it reads the task from standard input, does it, and ends the process.
func Main(system System) {
	wire := talk.Open(os.Stdin, os.Stdout, func() { os.Exit(1) })
	if err := Run(context.Background(), wire, system); err != nil {
		fmt.Fprintln(os.Stderr, system.Name+":", err)
		_ = wire.Say(talk.Event{Event: talk.Failed, Text: err.Error()}) // nothing else can report an error of this
		os.Exit(1)
	}
}

// Run does the one task that the wire brings and says its last event, unless it returns an error: that is the
// caller's to say.
func Run(ctx context.Context, wire *talk.Wire, system System) error {
	asked, err := wire.Task()
	if err != nil {
		return err
	}
	if asked.Measure == "version" {
		return version(wire, system)
	}
	do, known := measures[asked.Measure]
	if !known {
		return fmt.Errorf("no measure is called %q", asked.Measure)
	}
	if system.Refuses != nil {
		if why := system.Refuses(asked.Measure); why != "" {
			return errors.New(why)
		}
	}
	peer, err := system.Open(ctx, asked)
	if err != nil {
		return fmt.Errorf("open %s: %w", system.Name, err)
	}
	done, err := do(&task{Task: asked, wire: wire, peer: peer}, ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", asked.Measure, err)
	}
	if err := peer.Close(ctx); err != nil {
		return fmt.Errorf("close %s: %w", system.Name, err)
	}
	done.Event, done.Settings = talk.Done, peer.Settings()
	return wire.Say(done)
}

// version reads the system's version from the binary itself: it cannot differ from what runs.
func version(wire *talk.Wire, system System) error {
	if err := wire.Wait(talk.Event{Event: talk.Ready}); err != nil {
		return err
	}
	words := system.Name
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == system.Module {
				words += " " + module.Version
			}
		}
	}
	return wire.Say(talk.Event{Event: talk.Done, Settings: words + ", " + runtime.Version()})
}
