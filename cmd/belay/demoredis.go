package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/lua"
)

// A demoRedis is the Redis of a demonstration, and its keyspace in it.
type demoRedis struct {
	at       *redisFlags // with its URL and the prefix of the demonstration's own
	name     string      // "embedded", or the version of a real one
	jobs     *client.Client
	embedded *miniredis.Miniredis // nil for a real one
}

func (s *demoRedis) String() string {
	if s.embedded != nil {
		return "an embedded Redis"
	}
	return "Redis " + plain(s.name)
}

// openDemoRedis uses the Redis of --redis, or starts one in memory. It ignores the environment: "belay demo"
// must never run in production by accident.
func openDemoRedis(ctx context.Context, at *redisFlags) (s *demoRedis, err error) {
	if err := at.check(); err != nil {
		return nil, err
	}
	s = &demoRedis{at: at, name: "embedded"}
	at.prefix += word(at.prefix != "", ":") + demoPrefix + rand.Text()[:10]
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if at.url == "" {
		s.embedded = miniredis.NewMiniRedis()
		s.embedded.ClockTTL(true)
		if err := s.embedded.StartAddr("127.0.0.1:0"); err != nil {
			return s, fmt.Errorf("start the embedded Redis: %w", err)
		}
		at.url = "redis://" + s.embedded.Addr() + "/0"
	}
	redis, err := at.open()
	if err != nil {
		return s, err
	}
	if s.jobs, err = at.keyspace(redis); err != nil || s.embedded != nil {
		return s, err
	}
	version, err := driver.CheckVersion(ctx, redis) // one that is too old for Belay's scripts is refused
	if err != nil {
		return s, fmt.Errorf("read the version of Redis: %w", err)
	}
	s.name = cmp.Or(version, "of a hidden version")
	return s, nil
}

func (s *demoRedis) enqueue(ctx context.Context, jobs int) error {
	all := func(yield func(client.RawJob) bool) {
		for i := 0; i < jobs && yield(client.RawJob{Class: demoClass, Queue: demoQueue, Args: []any{i}}); i++ {
		}
	}
	if _, err := s.jobs.PushMany(ctx, all); err != nil {
		return fmt.Errorf("enqueue the jobs: %w", err)
	}
	return nil
}

// settle fills in how many jobs that are not done are in Redis, and how many are lost.
func (s *demoRedis) settle(r *report) error {
	missing := r.Enqueued - r.Done
	if missing <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), demoTimeout)
	defer cancel()
	check := inspect.CheckShards(ctx, s.jobs)[0]
	if check.Problem != "" {
		return fmt.Errorf("search for unfinished jobs: %s", check.Problem)
	}
	r.Unfinished = min(missing, int(check.Left.Jobs()))
	r.Lost = missing - r.Unfinished
	return nil
}

// demoTimeout limits the few small commands at the end.
const demoTimeout = 3 * time.Second

func (s *demoRedis) close() {
	if s.jobs != nil {
		if s.embedded == nil {
			s.sweep()
		}
		_ = s.jobs.Close()
	}
	if s.embedded != nil {
		s.embedded.Close()
	}
}

// sweep deletes the demonstration's keys from a Redis that is not its own. It spells out each name and
// searches for nothing, so that it touches no other key.
func (s *demoRedis) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), demoTimeout)
	defer cancel()
	// Each identity that a worker ever had is alive or has a tombstone.
	keys, redis := s.jobs.Spaces()[0].Keys, s.jobs.Driver()
	names := ownKeys(keys, time.Now())
	for _, reply := range redis.Do(ctx,
		driver.Command("ZRANGE", keys.Alive(), "0", "-1"),
		driver.Command("ZRANGE", keys.Tombstones(), "0", "-1"),
		driver.Command("SMEMBERS", keys.Processes())) {
		identities, _ := reply.Value.([]any) // none on an error: Redis is away then, which was reported before
		for _, member := range identities {
			identity, _ := member.(string)
			names = append(names,
				keys.Process(identity), keys.Work(identity), keys.Workers(identity), keys.Signals(identity), keys.Record(identity),
				keys.Claim(identity), keys.Working(demoQueue, identity), keys.QuarantineRun(identity))
		}
	}
	for page := range slices.Chunk(names, lua.MaxItems) {
		_ = redis.Do(ctx, driver.Command(append([]string{"UNLINK"}, page...)...))
	}
}

// ownKeys returns the keys that do not belong to one process. Midnight may have passed since the first job.
func ownKeys(keys lua.Keys, now time.Time) []string {
	names := []string{
		keys.Queues(), keys.Queue(demoQueue), keys.Paused(), keys.Schedule(), keys.Retry(), keys.Dead(),
		keys.Processed(), keys.Failed(), keys.Processes(), keys.Alive(), keys.Up(), keys.Tombstones(), keys.Sweeper(), keys.Poller(),
		keys.Watcher(), keys.Deputy(),
		keys.Quarantine(demoQueue), keys.Draining(demoQueue), keys.DrainAsked(demoQueue), keys.Samples(),
	}
	for _, day := range []time.Time{now.Add(-24 * time.Hour), now, now.Add(24 * time.Hour)} {
		names = append(names, keys.ProcessedOn(day), keys.FailedOn(day))
	}
	// Redis keeps the statistics of a longer demonstration for some hours or days.
	for at := now.Add(-time.Hour); at.Before(now.Add(2 * time.Minute)); at = at.Add(time.Minute) {
		names = append(names, keys.ClassMinute(at), keys.ClassTen(at), keys.QueueMinute(at),
			keys.RunHistogram(demoClass, at), keys.WaitHistogram(demoClass, at))
	}
	return names
}
