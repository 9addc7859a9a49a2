package main

import (
	"context"
	"slices"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// sweep deletes the demonstration's keys from a Redis that is somebody's. Each is spelled from what is known to have
// been there; nothing is searched for, and nothing of another name is touched.
func (s *stage) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), stageTimeout)
	defer cancel()
	keys := lua.NewKeys(s.prefix)
	names := ownKeys(keys, time.Now())
	for _, identity := range s.identities(ctx, keys) {
		names = append(names,
			keys.Process(identity), keys.Work(identity), keys.Workers(identity), keys.Signals(identity), keys.Record(identity),
			keys.Claim(identity), keys.Working(demoQueue, identity), keys.Alone(identity))
	}
	for page := range slices.Chunk(names, lua.MostItems) {
		// A Redis that has gone away keeps them; there is nobody to tell but the user, who sees that it has.
		_ = s.redis.Do(ctx, driver.Command(append([]string{"UNLINK"}, page...)...))
	}
}

// ownKeys are those of no single process. Midnight may have come since the first job.
func ownKeys(keys lua.Keys, now time.Time) []string {
	names := []string{
		keys.Queues(), keys.Queue(demoQueue), keys.Paused(), keys.Schedule(), keys.Retry(), keys.Dead(),
		keys.Processed(), keys.Failed(), keys.Processes(), keys.Alive(), keys.Tombstones(), keys.Sweeper(), keys.Poller(),
		keys.Suspects(demoQueue), keys.Draining(demoQueue), keys.DrainAsked(demoQueue),
	}
	for _, day := range []time.Time{now.Add(-24 * time.Hour), now, now.Add(24 * time.Hour)} {
		names = append(names, keys.ProcessedOn(day), keys.FailedOn(day))
	}
	return names
}

// identities are all that the demonstration's workers ever had: each stands among the living or the dead.
func (s *stage) identities(ctx context.Context, keys lua.Keys) []string {
	var identities []string
	for _, reply := range s.redis.Do(ctx,
		driver.Command("ZRANGE", keys.Alive(), "0", "-1"),
		driver.Command("ZRANGE", keys.Tombstones(), "0", "-1"),
		driver.Command("SMEMBERS", keys.Processes())) {
		members, _ := reply.Value.([]any)
		for _, member := range members {
			if identity, ok := member.(string); ok {
				identities = append(identities, identity)
			}
		}
	}
	return identities
}
