package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/inspect"
)

// A turn is one run of a command's body, for one of several shards. The context of the command has it, so that
// all that the body prints names the shard.
type turn struct {
	shard string
	// fleet are the shards of all turns.
	fleet []inspect.Shard
	// agreed reports whether the question of the command was answered with yes.
	agreed bool
	// signalled are the processes, by Process.Process, that got the signal of the command in an earlier shard.
	signalled map[string]bool
}

// sentTo records that a process got the signal of the command, unless that has no sessions in other shards.
func (t *turn) sentTo(process string) {
	if t.signalled == nil {
		t.signalled = make(map[string]bool)
	}
	t.signalled[process] = process != ""
}

type turnKey struct{}

// turnOf returns the turn of a command; an empty one if it is about one keyspace.
func turnOf(cmd *cobra.Command) *turn {
	if ctx := cmd.Context(); ctx != nil {
		if t, is := ctx.Value(turnKey{}).(*turn); is {
			return t
		}
	}
	return &turn{}
}

// inspectors returns those of the shards of all turns; i if the command is about one keyspace.
func (t *turn) inspectors(i *inspect.Inspector) []*inspect.Inspector {
	if len(t.fleet) == 0 {
		return []*inspect.Inspector{i}
	}
	var all []*inspect.Inspector
	for _, shard := range t.fleet {
		all = append(all, shard.Inspector)
	}
	return all
}

// errDeclined is the error of a command whose question was not answered with yes.
var errDeclined = errors.New("nothing was done")

// An absentError means that items do not exist.
type absentError struct{ ids []string }

func (e absentError) Error() string { return "not there, or not any more: " + listed(e.ids, 10) }

// perShard runs the body of a command for each of these shards. An error in one of them is reported at the
// end, and keeps the others from nothing; a mistake in the command line, a refusal at the question and a signal
// end the command at once. An item is absent if no shard has it.
func perShard(cmd *cobra.Command, shards []inspect.Shard, body func(inspect.Shard) error) error {
	if len(shards) == 1 {
		return body(shards[0])
	}
	t := &turn{fleet: shards}
	if cmd != nil {
		before := cmd.Context()
		cmd.SetContext(context.WithValue(before, turnKey{}, t))
		defer cmd.SetContext(before)
	}
	var errs []error
	var missing []string
	absentIn := make(map[string]int)
	for _, shard := range shards {
		t.shard = shard.Name
		err := body(shard)
		status, _ := errors.AsType[statusError](err)
		lost, isAbsent := errors.AsType[absentError](err)
		switch {
		case err == nil:
		case status.status == exitUsage, interrupted(err), errors.Is(err, errDeclined):
			return err
		case isAbsent:
			for _, id := range lost.ids {
				if absentIn[id]++; absentIn[id] == 1 {
					missing = append(missing, id)
				}
			}
		default:
			errs = append(errs, fmt.Errorf("shard %s: %w", shard.Name, err))
		}
	}
	missing = slices.DeleteFunc(missing, func(id string) bool { return absentIn[id]+len(errs) < len(shards) })
	if len(errs) == 0 {
		return absent(missing)
	}
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("the other shards do not have %s", listed(missing, 10)))
	}
	return errors.Join(errs...)
}

// spaceOf returns the keyspace of a shard.
func spaceOf(c *client.Client, shard inspect.Shard) client.Space {
	spaces := c.Spaces()
	return spaces[slices.IndexFunc(spaces, func(space client.Space) bool { return space.Name == shard.Name })]
}

// chosen returns the shards that a command is about: the one of --shard, or all. Without shards that is the one
// keyspace of the URL, without a name.
func (f *redisFlags) chosen(c *client.Client) ([]inspect.Shard, error) {
	shards := inspect.FleetOf(c).Shards()
	if f.shard == "" {
		return shards, nil
	}
	var names []string
	for _, shard := range shards {
		if shard.Name == f.shard {
			return []inspect.Shard{shard}, nil
		}
		names = append(names, shard.Name)
	}
	if names[0] == "" {
		return nil, usage("--shard %s: "+noShards, f.shard)
	}
	return nil, usage("--shard %s: the shards are %s", f.shard, strings.Join(names, ", "))
}
