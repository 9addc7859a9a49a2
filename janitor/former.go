package janitor

import (
	"context"
	"maps"
	"slices"

	"github.com/belayq/belay/lua"
)

// A process that Redis forgot (FLUSHALL, a restart without data) registers again under a new identity. An idle
// wait from before may still bring a job into a list of the former identity. So the janitor that recovers a
// process reads the lists of its former identity too. Once they were found empty, the former identity has a
// tombstone, and Sweep reads its lists like those of any dead process.

// recoverFormers recovers the jobs in the lists of the former identities of dead processes.
func (j *Janitor) recoverFormers(ctx context.Context, successors []*victim) error {
	records := make(map[string]lua.Record, len(successors))
	var names []string
	for _, successor := range successors {
		if successor.state == lua.StateDead && successor.finished() {
			names = append(names, successor.identity)
			records[successor.identity] = successor.record
		}
	}
	former, err := j.formerVictims(ctx, names, records)
	if err != nil {
		return err
	}
	outage := j.moveJobs(ctx, "", slices.Collect(maps.Values(former)))
	for _, successor := range successors {
		if v := former[successor.identity]; v != nil {
			successor.moved += v.moved
			successor.err = v.err
		}
	}
	return outage
}

// formerVictims returns the former identities of dead processes whose lists may hold jobs, by the identity of
// the successor.
func (j *Janitor) formerVictims(ctx context.Context, successors []string, records map[string]lua.Record) (map[string]*victim, error) {
	var names []string
	for _, successor := range successors {
		if former := records[successor].Formerly; former != "" {
			names = append(names, former)
		}
	}
	formers, _, err := j.cfg.Keys.ReadRecords(ctx, &j.link, names) // the sweep reports a record that cannot be read
	if err != nil {
		return nil, err
	}
	victims := make(map[string]*victim)
	for _, successor := range successors {
		former := records[successor].Formerly
		if record := formers[former]; record.Successor == successor && !record.Emptied {
			victims[successor] = &victim{identity: former, record: record, lists: j.cfg.Keys.ListsOf(record.Queues, former)}
		}
	}
	return victims, nil
}
