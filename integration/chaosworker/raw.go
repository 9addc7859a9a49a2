package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/lua"
)

// A rawPusher writes jobs as Ruby's Sidekiq does, by plain commands.
type rawPusher struct {
	redis driver.Client
	keys  lua.Keys
}

func newRawPusher(redis driver.Client, prefix string) rawPusher {
	return rawPusher{redis, lua.NewKeys(prefix)}
}

// push stores one job. Its error is, or is not, a belay.ErrUnknown.
func (p rawPusher) push(ctx context.Context, j chaosplan.Job) error {
	now, err := p.now(ctx)
	if err != nil {
		return err // asking stores nothing
	}
	payload := fmt.Sprintf(`{"retry":true,"queue":%q,"class":%q,"args":%s,"jid":%q,"created_at":%s,"enqueued_at":%[5]s}`,
		j.Queue, j.Class, asJSON(j), j.JID, seconds(now))
	calls := []driver.Call{driver.Command("SADD", p.keys.Queues(), j.Queue), driver.Command("LPUSH", p.keys.Queue(j.Queue), payload)}
	if j.Spec.DelayMillis > 0 {
		due := now.Add(time.Duration(j.Spec.DelayMillis) * time.Millisecond)
		calls = []driver.Call{driver.Command("ZADD", p.keys.Schedule(), seconds(due), payload)}
	}
	replies := p.redis.Do(ctx, calls...)
	if err := replies[len(replies)-1].Err; err != nil {
		return unknown(err)
	}
	return nil
}

// now is Redis' time.
func (p rawPusher) now(ctx context.Context) (time.Time, error) {
	return lua.TimeOf(p.redis.Do(ctx, lua.AskTime)[0])
}

func seconds(at time.Time) string {
	return strconv.FormatFloat(float64(at.UnixMicro())/1e6, 'f', 6, 64)
}
