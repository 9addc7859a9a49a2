package rueidisdriver

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
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

// ask asks one sentinel on a new connection: failovers are rare, and a connection that is kept would need a
// watch.
func (s *sentinels) ask(ctx context.Context, dial dialer, sentinel string, until time.Time) (string, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	o := s.options.Sentinel
	conn, err := dial(ctx, sentinel, &o.Dialer, o.TLSConfig)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(until); err != nil {
		return "", fmt.Errorf("set a deadline: %w", err)
	}
	reply := bufio.NewScanner(conn)
	if o.Password != "" {
		words := slices.DeleteFunc([]string{"AUTH", o.Username, o.Password}, func(word string) bool { return word == "" })
		if _, err := send(conn, reply, words...); err != nil {
			return "", err
		}
	}
	switch first, err := send(conn, reply, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", o.MasterSet); {
	case err != nil:
		return "", err
	case strings.HasPrefix(first, "*-"):
		return "", errors.New("it knows no primary of that name")
	case first != "*2":
		return "", errNoSentinel
	}
	var texts [2]string
	for i := range texts {
		size, err := line(reply)
		if err != nil {
			return "", err
		}
		if texts[i], err = line(reply); err != nil || size != "$"+strconv.Itoa(len(texts[i])) {
			return "", errors.Join(errNoSentinel, err)
		}
	}
	return net.JoinHostPort(texts[0], texts[1]), nil
}

// send sends a command and returns the first line of the reply; an error reply is an error.
func send(conn io.Writer, reply *bufio.Scanner, words ...string) (first string, err error) {
	command := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		command += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(conn, command); err != nil {
		return "", fmt.Errorf("ask: %w", err)
	}
	first, err = line(reply)
	if refusal, refused := strings.CutPrefix(first, "-"); refused {
		return "", errors.New(refusal)
	}
	return first, err
}

var errNoSentinel = errors.New("its reply is not that of a sentinel")

// line returns the next line of a reply. A line that is too long for the scanner is an error.
func line(reply *bufio.Scanner) (string, error) {
	if !reply.Scan() {
		return "", fmt.Errorf("read its reply: %w", cmp.Or(reply.Err(), io.ErrUnexpectedEOF))
	}
	return reply.Text(), nil
}
