package goredisdriver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belayq/belay/driver"
)

// A pool is a go-redis client of our own, which its Close closes, or a user's, which stays open.
type pool struct {
	redis *redis.Client

	over context.Context // ends when it is closed; nil for a user's client
	end  context.CancelFunc
	// calls is held for reading by each call. When go-redis' pool is closed while one of its connections is in
	// use, it logs that as a mistake, on a process-wide logger; so Close waits for the calls.
	calls sync.RWMutex
}

// newPool returns a pool that has not dialled. grace is that of each conn.
func newPool(o *redis.Options, grace time.Duration) *pool {
	p := &pool{}
	p.over, p.end = context.WithCancel(context.Background())
	o.Dialer = p.failLate(o, grace)
	p.redis = redis.NewClient(o)
	return p
}

// failLate returns a dialer that never fails: instead of an error it returns a connection that fails on
// first use. After a failed dial, go-redis' pool would log every attempt on a process-wide logger, and
// after PoolSize of them refuse to dial for a second or more, with a goroutine that outlives Close. So an
// outage logs nothing and ends without a delay. grace is that of each conn.
func (p *pool) failLate(o *redis.Options, grace time.Duration) dialer {
	dial := o.Dialer
	if dial == nil {
		dial = redis.NewDialer(o)
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(p.over, cancel)()
		raw, err := dial(ctx, network, addr)
		if p.Closed() {
			if err == nil {
				_ = raw.Close()
			}
			err = redis.ErrClosed
		}
		if err == nil {
			return p.newConn(raw, grace), nil
		}
		if o.TLSConfig != nil {
			err = driver.ExplainTLS(err)
		}
		return failedDial{&driver.NotSentError{Err: err}}, nil
	}
}

// call runs a call. Close ends it.
func (p *pool) call(do func() error) error {
	p.calls.RLock()
	defer p.calls.RUnlock()
	if p.Closed() {
		return redis.ErrClosed
	}
	return do()
}

// Close implements driver.Client and driver.Waiter: calls under way fail. Closing again does nothing.
func (p *pool) Close() error {
	if p.over == nil {
		return nil
	}
	p.end()
	p.calls.Lock()
	defer p.calls.Unlock()
	if err := p.redis.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("close go-redis client: %w", err)
	}
	return nil
}

// Closed reports whether Close has closed its connections. For a user's own client it is always false.
func (p *pool) Closed() bool { return p.over != nil && p.over.Err() != nil }
