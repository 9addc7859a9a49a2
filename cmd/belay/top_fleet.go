package main

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/belayq/belay/inspect"
)

// A topFleet has the operations of the page for all shards. The status names a shard that is away; its jobs are
// not shown.
type topFleet struct{ *inspect.Fleet }

func (f topFleet) Status(ctx context.Context) (inspect.Status, error) {
	status, err := f.Fleet.Status(ctx)
	return status.Status, err
}

func (f topFleet) Pause(ctx context.Context, queue string) (changed bool, err error) {
	return f.any(func(i *inspect.Inspector) (bool, error) { return i.Pause(ctx, queue) })
}

func (f topFleet) Resume(ctx context.Context, queue string) (changed bool, err error) {
	return f.any(func(i *inspect.Inspector) (bool, error) { return i.Resume(ctx, queue) })
}

// Signal sends a signal to the session of a process in the shard that has it: the process obeys it as a whole.
func (f topFleet) Signal(ctx context.Context, identity string, signal inspect.Signal) (sent bool, err error) {
	sent, err = f.any(func(i *inspect.Inspector) (bool, error) { return i.Signal(ctx, identity, signal) })
	if sent {
		err = nil // what is away does not matter then
	}
	return sent, err
}

// any does something in each shard, and reports whether it had an effect in any of them.
func (f topFleet) any(do func(*inspect.Inspector) (bool, error)) (effect bool, err error) {
	shards := f.Shards()
	var errs []error
	for _, shard := range shards {
		had, err := do(shard.Inspector)
		effect = effect || had
		switch {
		case err == nil:
		case len(shards) == 1:
			return effect, err
		default:
			errs = append(errs, fmt.Errorf("shard %s: %w", shard.Name, err))
		}
	}
	return effect, errors.Join(errs...)
}

// Jobs yields a job of each shard in turn. It yields an error only if no shard can be read.
func (f topFleet) Jobs(ctx context.Context, query inspect.Query) iter.Seq2[inspect.Found, error] {
	shards := f.Shards()
	if len(shards) == 1 {
		return shards[0].Jobs(ctx, query)
	}
	return func(yield func(inspect.Found, error) bool) {
		var nexts []func() (inspect.Found, error, bool)
		for _, shard := range shards {
			next, stop := iter.Pull2(shard.Jobs(ctx, query))
			defer stop()
			nexts = append(nexts, next)
		}
		var errs []error
		for left := len(nexts); left > 0; {
			for n, next := range nexts {
				if next == nil {
					continue
				}
				found, err, ok := next()
				if err != nil {
					errs = append(errs, fmt.Errorf("shard %s: %w", shards[n].Name, err))
				}
				if err != nil || !ok {
					nexts[n] = nil
					left--
				} else if !yield(found, nil) {
					return
				}
			}
		}
		if len(errs) == len(shards) {
			yield(inspect.Found{}, errors.Join(errs...))
		}
	}
}
