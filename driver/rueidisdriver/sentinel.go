package rueidisdriver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/belayq/belay/driver"
)

// sentinels finds the primary at every dial. rueidis' own Sentinel client is not used because it re-sends
// commands, and because it keeps a connection even to a primary that was replaced. Here a connection to a
// replica, or a silent one, is cut as without Sentinel, and the next dial asks where the primary is now.
type sentinels struct {
	options rueidis.ClientOption
	mu      sync.Mutex
	addrs   []string // the one that answered last is first
}

// throughSentinels returns a dialer that ignores its address and connects to the primary.
func throughSentinels(o rueidis.ClientOption, dial dialer) dialer {
	s := &sentinels{options: o, addrs: slices.Clone(o.InitAddress)}
	return func(ctx context.Context, _ string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
		addr, err := s.primary(ctx, dial)
		if err != nil {
			return nil, err
		}
		return dial(ctx, addr, d, c)
	}
}

func (s *sentinels) primary(ctx context.Context, dial dialer) (string, error) {
	s.mu.Lock()
	addrs := slices.Clone(s.addrs)
	s.mu.Unlock()
	var failures []error
	for i, sentinel := range addrs {
		// A share of the time that is left: a silent sentinel must not use it all up.
		until := time.Now().Add(driver.DialTimeout)
		if deadline, ok := ctx.Deadline(); ok {
			until = time.Now().Add(time.Until(deadline) / time.Duration(len(addrs)-i+1))
		}
		addr, err := s.ask(ctx, dial, sentinel, until)
		if err == nil {
			s.prefer(sentinel)
			return addr, nil
		}
		failures = append(failures, fmt.Errorf("sentinel %s: %w", sentinel, err))
	}
	return "", fmt.Errorf("find the primary %s: %w", s.options.Sentinel.MasterSet, errors.Join(failures...))
}

func (s *sentinels) prefer(sentinel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addrs = slices.DeleteFunc(s.addrs, func(addr string) bool { return addr == sentinel })
	s.addrs = slices.Insert(s.addrs, 0, sentinel)
}

// ask asks one sentinel by a Client of its own: failovers are rare, and a connection that is kept would need a
// watch.
func (s *sentinels) ask(ctx context.Context, dial dialer, sentinel string, until time.Time) (string, error) {
	o := s.options.Sentinel
	client, err := New(rueidis.ClientOption{
		InitAddress: []string{sentinel}, Username: o.Username, Password: o.Password, Dialer: o.Dialer, TLSConfig: o.TLSConfig, DialCtxFn: dial,
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	reply := client.Do(ctx, driver.Command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", o.MasterSet))[0]
	if reply.Err != nil {
		return "", errors.New(reply.Err.Error()) // not a *driver.ServerError: what a sentinel refuses is not a refusal by the primary
	}
	switch words, _ := reply.Value.([]any); {
	case reply.Value == nil:
		return "", errors.New("it knows no primary of that name")
	case len(words) == 2:
		return net.JoinHostPort(fmt.Sprint(words[0]), fmt.Sprint(words[1])), nil
	}
	return "", errors.New("its reply is not that of a sentinel")
}
