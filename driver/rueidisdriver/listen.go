package rueidisdriver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/belayq/belay/driver"
)

// Listen implements driver.Client. Its connection speaks RESP3: in RESP2 rueidis uses two, and probes neither.
func (c *Client) Listen(ctx context.Context, channels []string, probe time.Duration, subscribed func(), received func(string)) error {
	if err := c.unusable(ctx); err != nil {
		return &driver.NotSentError{Err: err}
	}
	ctx, over := c.source.listens.Begin(ctx)
	defer over()
	conn, err := connect(c.source.options, func(o *rueidis.ClientOption) {
		forOne(o)
		o.AlwaysRESP2 = false
		if probe > 0 {
			// rueidis sends a PING at the second look that finds no new reply, and waits this long for its own.
			o.Dialer.KeepAlive, o.ConnWriteTimeout = probe/2, probe
		}
	})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	// rueidis does not watch the context while it dials, and a silent server would hold it for DialTimeout.
	defer context.AfterFunc(ctx, conn.link.close)()
	client := conn.redis
	unconfirmed := len(channels)
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) {
		if unconfirmed--; unconfirmed == 0 {
			subscribed()
		}
	})
	err = client.Receive(hooked, client.B().Subscribe().Channel(channels...).Build(), func(m rueidis.PubSubMessage) { received(m.Message) })
	var refused *rueidis.RedisError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &refused):
		return serverError(refused.Error())
	}
	return fmt.Errorf("listen: %w", err)
}
