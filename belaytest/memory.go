package belaytest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest/resp"
)

// memory is an in-memory Redis: miniredis, called as a function. It has no socket and no goroutine, so it works
// in a bubble of testing/synctest, where it uses the bubble's clock.
type memory struct {
	redis  *server.Server
	topics *miniredis.Miniredis // the same Redis, for subscriptions
	sender driver.ScriptSender

	mu      sync.Mutex
	changed chan struct{} // closed by the next call
}

var _ driver.Client = (*memory)(nil)

func newMemory(t testing.TB) *memory {
	t.Helper()
	redis := miniredis.NewMiniRedis()
	redis.ClockTTL(true)
	conn, err := redis.Dial() // creates the server without a listener; the connection is not needed
	if err != nil {
		t.Fatalf("belaytest: start a Redis in memory: %v", err)
	}
	_ = conn.Close()
	t.Cleanup(redis.Close)
	return &memory{redis: redis.Server(), topics: redis, changed: make(chan struct{})}
}

// Do implements driver.Client.
func (m *memory) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	if err := ctx.Err(); err != nil {
		replies := make([]driver.Reply, len(calls))
		for i := range replies {
			replies[i].Err = &driver.NotSentError{Err: err}
		}
		return replies
	}
	replies := m.look(calls...)
	m.announce()
	return replies
}

// look is Do for calls that change nothing, of which next must not report any.
func (m *memory) look(calls ...driver.Call) []driver.Reply { return m.sender.Do(calls, m.send) }

func (m *memory) send(calls []driver.Call, replies []driver.Reply, indexes []int, form driver.ScriptForm) {
	for _, i := range indexes {
		replies[i] = m.call(words(calls[i], form))
	}
}

func words(call driver.Call, form driver.ScriptForm) []string {
	if call.Script == nil {
		return call.Args
	}
	verb, body := form.Words(call.Script)
	return slices.Concat([]string{verb, body, strconv.Itoa(len(call.Keys))}, call.Keys, call.Args)
}

// call runs one command on a connection of its own, which it closes.
func (m *memory) call(words []string) driver.Reply {
	var answer bytes.Buffer
	peer := server.NewPeer(bufio.NewWriter(&answer))
	m.redis.Dispatch(peer, words)
	peer.Flush()
	value, err := resp.Read(bufio.NewReader(&answer))
	var refused *driver.ServerError
	if err != nil && !errors.As(err, &refused) {
		err = &driver.UncertainError{Err: err}
	}
	return driver.Reply{Value: value, Err: err}
}

// next returns a channel that the next call closes.
func (m *memory) next() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

func (m *memory) announce() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.changed)
	m.changed = make(chan struct{})
}

// Lane implements driver.Client. All lanes are this client, because no call is slow enough to delay others.
func (m *memory) Lane(int) (driver.Client, error) { return m, nil }

// Listen implements driver.Client.
func (m *memory) Listen(ctx context.Context, channels []string, _ time.Duration, subscribed func(), received func(string)) error {
	subscriber := m.topics.NewSubscriber()
	m.change(subscriber.Subscribe, channels)
	defer m.unsubscribe(subscriber, channels)
	subscribed()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case message := <-subscriber.Messages():
			received(message.Message)
		}
	}
}

// change subscribes to channels, or ends that, between two commands: PUBSUB NUMSUB of miniredis reads the
// subscriptions without their own lock.
func (m *memory) change(act func(channel string) int, channels []string) {
	m.topics.Lock()
	defer m.topics.Unlock()
	for _, channel := range channels {
		act(channel)
	}
}

// unsubscribe ends a subscription. Miniredis holds its locks while it sends a message, and unsubscribing needs
// them, so it drops the messages that are sent meanwhile.
func (m *memory) unsubscribe(subscriber *miniredis.Subscriber, channels []string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.change(subscriber.Unsubscribe, channels)
	}()
	for {
		select {
		case <-subscriber.Messages():
		case <-done:
			return
		}
	}
}

// Close implements driver.Client. It keeps the jobs, because the test may read them after its program has
// closed the client.
func (m *memory) Close() error { return nil }
