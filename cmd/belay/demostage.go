package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/inspect"
)

// A stage is the Redis of a demonstration, and the place in it that is the demonstration's own.
type stage struct {
	url, client, prefix string
	name                string // for people: "embedded", or the version of a real one
	redis               driver.Client
	embedded            *miniredis.Miniredis // nil for a real one
}

// openStage uses the Redis that --redis names, or starts one in memory. The environment does not count: who types
// "belay demo" must not find it in production.
func openStage(ctx context.Context, at *redisFlags) (*stage, error) {
	s := &stage{client: at.client, prefix: "belay-demo-" + rand.Text()[:10]}
	if at.prefix != "" {
		s.prefix = at.prefix + ":" + s.prefix
	}
	if err := at.check(); err != nil {
		return nil, err
	}
	if at.url == "" {
		s.embedded = miniredis.NewMiniRedis()
		s.embedded.ClockTTL(true)
		if err := s.embedded.StartAddr("127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("start the embedded Redis: %w", err)
		}
		at.url = "redis://" + s.embedded.Addr() + "/0"
	}
	s.url = at.url
	redis, err := at.open()
	if err == nil {
		s.redis = redis
		err = s.identify(ctx)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

var redisVersion = regexp.MustCompile(`redis_version:(\d+)\.([0-9.]+)`)

// identify refuses a Redis that is too old for Belay's scripts.
func (s *stage) identify(ctx context.Context) error {
	if s.embedded != nil {
		s.name = "embedded"
		return nil
	}
	reply := s.redis.Do(ctx, driver.Command("INFO", "server"))[0]
	if reply.Err != nil {
		return fmt.Errorf("ask Redis for its version: %w", reply.Err)
	}
	text, _ := reply.Value.(string)
	found := redisVersion.FindStringSubmatch(text)
	if found == nil {
		return errors.New("this Redis does not tell its version")
	}
	s.name = found[1] + "." + found[2]
	if major, _ := strconv.Atoi(found[1]); major < 7 {
		return fmt.Errorf("this Redis is %s: Belay needs 7.0 or newer", s.name)
	}
	return nil
}

func (s *stage) enqueue(ctx context.Context, jobs int) error {
	pusher, err := client.New(s.redis, client.Config{Prefix: s.prefix})
	if err != nil {
		return err
	}
	for _, err := range pusher.PushSlices(ctx, demoJobs(jobs)) {
		if err != nil {
			return fmt.Errorf("enqueue the jobs: %w", err)
		}
	}
	return nil
}

func demoJobs(jobs int) iter.Seq[client.RawJob] {
	return func(yield func(client.RawJob) bool) {
		for i := range jobs {
			if !yield(client.RawJob{Class: demoClass, Queue: demoQueue, Args: []any{i}}) {
				return
			}
		}
	}
}

// settle says what became of jobs that are not done: still in Redis, or lost.
func (s *stage) settle(r *report) error {
	missing := r.Enqueued - r.Done
	if missing <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stageTimeout)
	defer cancel()
	inspector := inspect.New(s.redis, s.prefix)
	status, err := inspector.Status(ctx)
	if err != nil {
		return fmt.Errorf("look for the jobs that are not done: %w", err)
	}
	lists, err := inspector.Working(ctx)
	if err != nil {
		return fmt.Errorf("look for the jobs that are not done: %w", err)
	}
	there := int(status.Enqueued + status.Scheduled + status.Retries + status.Dead)
	for _, list := range lists {
		there += max(list.Size, 0)
	}
	r.Unfinished = min(missing, there)
	r.Lost = missing - r.Unfinished
	return nil
}

// stageTimeout bounds what is asked of Redis at the end; it is a handful of small commands.
const stageTimeout = 3 * time.Second

func (s *stage) close() {
	if s.redis != nil {
		if s.embedded == nil {
			s.sweep()
		}
		_ = s.redis.Close()
	}
	if s.embedded != nil {
		s.embedded.Close()
	}
}
