package rueidisdriver

import (
	"bufio"
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
)

// sentinels finds the primary anew at every dial. rueidis' own Sentinel client is not used: it keeps a connection for as
// long as it lives, also to a primary that was replaced, and re-sends. Here a connection that is refused by a replica, or is
// silent, is cut as ever, and the next dial asks where the primary is now.
type sentinels struct {
	options rueidis.ClientOption
	mu      sync.Mutex
	addrs   []string // the one that answered last is first
}

// throughSentinels makes a dialer of the primary of one for given addresses.
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

// primary asks one sentinel after the other.
func (s *sentinels) primary(ctx context.Context, dial dialer) (string, error) {
	s.mu.Lock()
	addrs := slices.Clone(s.addrs)
	s.mu.Unlock()
	var failures []error
	for i, sentinel := range addrs {
		// Its share of the time that is left: one that is silent must not use it all up.
		until := time.Now().Add(dialTimeout)
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

// ask asks one sentinel on a connection of its own: failovers are rare, and a connection that is kept would have to be
// watched.
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
	answers := bufio.NewReader(conn)
	if o.Password != "" {
		words := []string{"AUTH", o.Username, o.Password}
		if o.Username == "" {
			words = slices.Delete(words, 1, 2)
		}
		if _, err := askOnce(conn, answers, words...); err != nil {
			return "", err
		}
	}
	answer, err := askOnce(conn, answers, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", o.MasterSet)
	switch {
	case err != nil:
		return "", err
	case len(answer) != 2:
		return "", errors.New("it knows no primary of that name")
	}
	return net.JoinHostPort(answer[0], answer[1]), nil
}

// askOnce sends one command and reads what it answers: a status, or an array of texts. No more is needed here.
func askOnce(conn io.Writer, answers *bufio.Reader, words ...string) ([]string, error) {
	var command strings.Builder
	fmt.Fprintf(&command, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&command, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(conn, command.String()); err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	kind, rest, err := readLine(answers)
	if err != nil {
		return nil, err
	}
	switch kind {
	case '+':
		return []string{rest}, nil
	case '-':
		return nil, errors.New(rest)
	case '*':
		return readTexts(answers, rest)
	default:
		return nil, errOddAnswer
	}
}

var errOddAnswer = errors.New("its answer is not that of a sentinel")

// mostTexts is more than any answer that is asked for has.
const mostTexts = 16

func readTexts(answers *bufio.Reader, count string) ([]string, error) {
	n, err := strconv.Atoi(count)
	if err != nil || n > mostTexts {
		return nil, errOddAnswer
	}
	var texts []string
	for range n {
		kind, size, err := readLine(answers)
		if err != nil {
			return nil, err
		}
		text, err := answers.ReadString('\n')
		if err != nil || kind != '$' || size != strconv.Itoa(len(text)-len("\r\n")) {
			return nil, errors.Join(errOddAnswer, err)
		}
		texts = append(texts, strings.TrimSuffix(text, "\r\n"))
	}
	return texts, nil
}

func readLine(answers *bufio.Reader) (kind byte, rest string, err error) {
	line, err := answers.ReadString('\n')
	if err != nil {
		return 0, "", fmt.Errorf("read its answer: %w", err)
	}
	if line = strings.TrimSuffix(line, "\r\n"); line == "" {
		return 0, "", errOddAnswer
	}
	return line[0], line[1:], nil
}
