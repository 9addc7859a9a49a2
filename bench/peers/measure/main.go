package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/belayq/belay/bench/subject"
)

// A task is one measure under way.
type task struct {
	subject.Task
	talk *subject.Talk
	peer Peer
}

// Main is a subject's whole main: it reads the task from standard input, does it, and ends the process.
func Main(system System) {
	os.Exit(subject.Serve(context.Background(), os.Stdin, os.Stdout, Of(system)))
}

// Of returns the measures of a system, by name.
func Of(system System) map[string]subject.Func {
	all := map[string]subject.Func{"version": system.version}
	for name, do := range map[string]func(*task, context.Context) (subject.Event, error){
		"drain": (*task).drain, "enqueue": (*task).enqueue, "bulk": (*task).bulk, "push": (*task).push,
		"latency": (*task).latency, "schedule": (*task).schedule, "burst": (*task).burst, "starve": (*task).starve,
		"victim": (*task).victim, "survivor": (*task).survivor,
	} {
		all[name] = func(ctx context.Context, request subject.Task, talk *subject.Talk) error {
			peer, err := system.Open(ctx, request)
			if err != nil {
				return fmt.Errorf("open %s: %w", system.Name, err)
			}
			var done subject.Event
			if err = talk.Ready(ctx); err == nil {
				done, err = do(&task{Task: request, talk: talk, peer: peer}, ctx)
			}
			if err = errors.Join(err, peer.Close(context.WithoutCancel(ctx))); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			done.Settings = peer.Settings()
			return talk.Done(done)
		}
	}
	return all
}

// version reads the system's version from the binary itself: it cannot differ from what runs.
func (s System) version(ctx context.Context, _ subject.Task, talk *subject.Talk) error {
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	words := s.Name
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == s.Module {
				words += " " + module.Version
			}
		}
	}
	return talk.Done(subject.Event{Settings: words + ", " + runtime.Version()})
}

// Timed reports whether the measure is how soon a job runs. There, Best asks for the settings under which it
// runs soonest; without it a system polls as often as it does by default.
func Timed(measure string) bool {
	return measure == "latency" || measure == "schedule" || measure == "burst"
}

// Stores reports whether the measure only stores jobs: no worker runs, and there is no concurrency to choose.
func Stores(measure string) bool {
	return measure == "enqueue" || measure == "bulk" || measure == "push"
}
