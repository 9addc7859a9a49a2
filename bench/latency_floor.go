package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/belayq/belay/bench/subject"
)

// A pingpong is the least that an idle queue on Redis can be: one connection blocks in BLMOVE, another sends
// LPUSH. Nothing of Belay's is in it, only the bare client.
type pingpong struct {
	push func(ctx context.Context, value string) error
	// take blocks until a value has come, for a second at most: "" is none.
	take  func(ctx context.Context) (string, error)
	close func()
}

// The lists of the pingpong.
const (
	pingList = "ping"
	pongList = "pong"
)

// openPingpong opens both connections with that client.
func openPingpong(ctx context.Context, name, url string) (*pingpong, error) {
	switch name {
	case "go-redis":
		return openGoRedisPingpong(ctx, url)
	case "rueidis":
		return openRueidisPingpong(ctx, url)
	}
	return nil, fmt.Errorf("client %q: it is go-redis or rueidis", name)
}

func openGoRedisPingpong(ctx context.Context, url string) (*pingpong, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(options)
	return &pingpong{
		push: func(ctx context.Context, value string) error { return client.LPush(ctx, pingList, value).Err() },
		take: func(ctx context.Context) (string, error) {
			value, err := client.BLMove(ctx, pingList, pongList, "RIGHT", "LEFT", time.Second).Result()
			if errors.Is(err, redis.Nil) {
				return "", nil
			}
			return value, err
		},
		close: func() { _ = client.Close() },
	}, client.Ping(ctx).Err()
}

func openRueidisPingpong(ctx context.Context, url string) (*pingpong, error) {
	options, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	options.DisableCache = true
	client, err := rueidis.NewClient(options)
	if err != nil {
		return nil, err
	}
	return &pingpong{
		push: func(ctx context.Context, value string) error {
			return client.Do(ctx, client.B().Lpush().Key(pingList).Element(value).Build()).Error()
		},
		take: func(ctx context.Context) (string, error) { // rueidis sends what blocks over a connection of its own
			value, err := client.Do(ctx, client.B().Blmove().Source(pingList).Destination(pongList).Right().Left().Timeout(1).Build()).ToString()
			if rueidis.IsRedisNil(err) {
				return "", nil
			}
			return value, err
		},
		close: client.Close,
	}, client.Do(ctx, client.B().Ping().Build()).Error()
}

// pingpongSubject is the floor of latency: the same open loop, into the bare pingpong.
func pingpongSubject(ctx context.Context, task subject.Task, talk *subject.Talk) error {
	p, err := openPingpong(ctx, task.Client, task.URL)
	if p != nil {
		defer p.close()
	}
	if err != nil {
		return err
	}
	if err := talk.Ready(ctx); err != nil {
		return err
	}
	timing := newTiming(countOf(task))
	taking, stop := context.WithCancel(ctx)
	taken := make(chan error, 1)
	go func() { taken <- p.takeAll(taking, timing) }()
	sent, err := openLoop(ctx, task, timing.due, func(n int) error { return p.push(ctx, strconv.Itoa(n)) })
	if err != nil {
		stop()
		return errors.Join(err, <-taken)
	}
	e, err := timing.finish(ctx)
	stop()
	if err := errors.Join(err, <-taken); err != nil {
		return err
	}
	e.Settings, e.Extra = "a blocked BLMOVE and an LPUSH", sent
	return talk.Done(e)
}

// takeAll takes values until all have come or ctx ends.
func (p *pingpong) takeAll(ctx context.Context, timing *timing) error {
	for ctx.Err() == nil && timing.left.Load() > 0 {
		value, err := p.take(ctx)
		now := time.Now()
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err != nil || value == "" {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		if err := timing.starts(n, now); err != nil {
			return err
		}
	}
	return nil
}
