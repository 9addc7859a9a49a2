package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/lua"
)

// A ShardCheck compares what the keyspace of a shard has recorded with the configuration of a client, and
// counts what is left in it.
type ShardCheck struct {
	Name   string `json:"name"`
	Prefix string `json:"prefix"`
	// BoundShards are the names of all shards for bound keys, as the keyspace has recorded them; empty if no
	// program has used it as a shard.
	BoundShards []string `json:"bound_shards"`
	// Problem says why the shard could not be read, or what its record and the configuration differ in.
	Problem string    `json:"problem,omitempty"`
	Left    ShardLeft `json:"left"`

	err error
}

// ShardLeft counts what is left in a shard.
type ShardLeft struct {
	// Queued counts jobs in queues, Running those that workers have, and Waiting those that wait for limits.
	Queued  int64 `json:"queued"`
	Running int64 `json:"running"`
	Waiting int64 `json:"waiting"`
	// Scheduled, Retries and Dead are the sizes of the three sets.
	Scheduled int64 `json:"scheduled"`
	Retries   int64 `json:"retries"`
	Dead      int64 `json:"dead"`
	// Locks counts the locks that are held, Gates those of limits with jobs, and Batches those that are not
	// over.
	Locks   int64 `json:"locks"`
	Gates   int64 `json:"gates"`
	Batches int64 `json:"batches"`
}

// Jobs counts the jobs that are left.
func (l ShardLeft) Jobs() int64 {
	return l.Queued + l.Running + l.Waiting + l.Scheduled + l.Retries + l.Dead
}

// Bound counts the bound keys that are left.
func (l ShardLeft) Bound() int64 { return l.Locks + l.Gates + l.Batches }

// CheckShards checks the shards of a client with these names, or all of them, at once.
func CheckShards(ctx context.Context, c *client.Client, names ...string) []ShardCheck {
	var checks []ShardCheck
	var spaces []client.Space
	for _, space := range c.Spaces() {
		if len(names) == 0 || slices.Contains(names, space.Name) {
			spaces = append(spaces, space)
			checks = append(checks, ShardCheck{Name: space.Name, Prefix: space.Prefix, BoundShards: []string{}})
		}
	}
	fleet := FleetOf(c)
	var reads sync.WaitGroup
	for n, space := range spaces {
		i, _ := fleet.Shard(space.Name)
		reads.Go(func() {
			if checks[n].err = checks[n].read(ctx, i, space); checks[n].err != nil {
				checks[n].Problem = checks[n].err.Error()
			}
		})
	}
	reads.Wait()
	return checks
}

// read fills a check. A record that differs is a problem and no error.
func (c *ShardCheck) read(ctx context.Context, i *Inspector, space client.Space) error {
	recorded, err := space.Keys.ReadShard().Do(ctx, space.Driver)
	if err != nil {
		return fmt.Errorf("read which shard it is: %w", err)
	}
	want := space.Record()
	switch {
	case recorded.Name == "":
	case recorded.Name != want.Name:
		c.Problem = fmt.Sprintf("its keyspace is that of shard %q", recorded.Name)
	case !slices.Equal(recorded.Bound, want.Bound):
		c.Problem = fmt.Sprintf("the bound shards are recorded as %q, and here they are %q",
			strings.Join(recorded.Bound, " "), strings.Join(want.Bound, " "))
	}
	c.BoundShards = append(c.BoundShards, recorded.Bound...)
	c.Left, err = i.left(ctx)
	return err
}

// left counts what is left in the keyspace.
func (i *Inspector) left(ctx context.Context) (left ShardLeft, err error) {
	status, err := i.Status(ctx)
	if err != nil {
		return left, err
	}
	if len(status.Problems) > 0 {
		return left, errors.New(strings.Join(status.Problems, "; "))
	}
	left = ShardLeft{
		Queued: status.Enqueued + status.Quarantined, Waiting: status.Waiting,
		Scheduled: status.Scheduled, Retries: status.Retries, Dead: status.Dead,
	}
	for _, process := range status.Processes {
		if !process.Belay {
			left.Running += int64(process.Busy)
		}
	}
	working, err := i.Working(ctx)
	if err != nil {
		return left, err
	}
	for _, list := range working {
		left.Running += int64(max(list.Size, 0))
	}
	if left.Locks, err = i.LockCount(ctx); err != nil {
		return left, err
	}
	limits, err := i.Limits(ctx)
	if err != nil {
		return left, err
	}
	for _, limit := range limits.Limits {
		left.Gates += int64(limit.Gates)
	}
	for batch, err := range i.Batches(ctx) {
		if err != nil {
			return left, err
		}
		if batch.State != lua.BatchStateOver {
			left.Batches++
		}
	}
	return left, nil
}

// ErrBound means that BindShards has changed nothing, because locks, limits or batches would be looked for on
// other shards than those where they are.
var ErrBound = errors.New("locks, limits or batches are left")

// BindShards records in all shards of a client that jobs with a bound key are placed among the shards with
// these names. Every shard must answer, and none may have locks, jobs of limits or open batches. Programs that
// push jobs with a bound key must be stopped before, and start with the new configuration.
//
// If it fails while it records, it has changed some shards. Programs are refused then with ErrShards, and
// repeating it changes the others.
func BindShards(ctx context.Context, c *client.Client, names ...string) error {
	spaces := c.Spaces()
	for _, name := range names {
		if !slices.ContainsFunc(spaces, func(space client.Space) bool { return space.Name == name && name != "" }) {
			return fmt.Errorf("%w: %q", ErrNoShard, name)
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("%w: bind one at least", ErrNoShard)
	}
	var errs []error
	for n, check := range CheckShards(ctx, c) {
		recorded, err := spaces[n].Keys.ReadShard().Do(ctx, spaces[n].Driver)
		switch {
		case check.err != nil:
			errs = append(errs, fmt.Errorf("shard %s: %w", check.Name, check.err))
		case err != nil:
			errs = append(errs, fmt.Errorf("shard %s: %w", check.Name, err))
		case recorded.Name != "" && recorded.Name != check.Name:
			errs = append(errs, fmt.Errorf("shard %s: %s", check.Name, check.Problem))
		case check.Left.Bound() > 0:
			errs = append(errs, fmt.Errorf("shard %s: %w: %d locks, %d gates, %d batches", check.Name, ErrBound,
				check.Left.Locks, check.Left.Gates, check.Left.Batches))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, space := range spaces {
		call := space.Keys.BindShard(lua.Shard{Name: space.Name, Bound: slices.Compact(slices.Sorted(slices.Values(names)))})
		if err := space.Driver.Do(ctx, call)[0].Err; err != nil {
			return fmt.Errorf("shard %s: record the bound shards: %w", space.Name, err)
		}
	}
	return nil
}

// ErrNoShard means that a shard is not among those of the client.
var ErrNoShard = errors.New("there is no such shard")
