package goredisdriver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belayq/belay/driver"
)

// Listen implements driver.Client.
func (c *Client) Listen(ctx context.Context, channels []string, probe time.Duration, subscribed func(), received func(string)) error {
	ctx, over := c.source.listens.Begin(ctx)
	defer over()
	options := enforced(c.source.options)
	options.ReadBufferSize, options.WriteBufferSize = driver.WaiterBufferSize, driver.WaiterBufferSize
	client := newPool(options, 0)
	defer func() { _ = client.Close() }()
	// go-redis does not watch a context while it reads, and a subscription that is being made holds the lock
	// that its Close needs.
	defer context.AfterFunc(ctx, client.end)()
	subscription := client.redis.Subscribe(ctx)
	defer func() { _ = subscription.Close() }()

	begin, began := context.WithTimeout(ctx, driver.CallTimeout)
	defer began()
	err := subscription.Subscribe(begin, channels...)
	unconfirmed := len(channels)
	for probed := false; err == nil; {
		var got any
		got, err = subscription.ReceiveTimeout(ctx, probe)
		var late net.Error
		switch {
		case errors.As(err, &late) && late.Timeout() && !probed && ctx.Err() == nil:
			probed = true
			err = subscription.Ping(ctx)
			continue
		case err != nil:
			continue
		}
		probed = false
		switch got := got.(type) {
		case *redis.Subscription:
			if unconfirmed--; unconfirmed == 0 {
				subscribed()
			}
		case *redis.Message:
			received(got.Payload)
		}
	}
	var refused redis.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &refused):
		return driver.NewServerError(refused.Error())
	}
	return fmt.Errorf("listen: %w", err)
}
