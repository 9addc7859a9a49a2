package faultproxy

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/alicebob/miniredis/v2/proto"

	"github.com/belayq/belay/internal/drivertest/relay"
)

// A conn is a connection under the rules of its proxy.
type conn struct {
	*relay.Conn
	proxy *Proxy
	dark  [2]atomic.Bool // by direction: a rule has stopped the traffic

	mu      sync.Mutex // also orders what is written to the client
	waiting []request  // requests whose reply has not been passed on, oldest first
}

// A request waits for its reply, which forged holds if the server is not asked.
type request struct{ raw, forged string }

func (c *conn) run() {
	var replies sync.WaitGroup
	replies.Go(func() { c.pump(c.Server, c.reply) })
	c.pump(c.Client, c.request)
	replies.Wait()
}

// pump passes frames on until one cannot be, and closes the connection.
func (c *conn) pump(from io.Reader, pass func(raw string) error) {
	defer c.Close()
	in := bufio.NewReader(from)
	for {
		raw, err := proto.Read(in)
		if err != nil || pass(raw) != nil {
			return
		}
	}
}

func (c *conn) request(raw string) error {
	action := c.proxy.decide(Requests, raw)
	if action.fail != "" {
		return c.forge(request{raw: raw, forged: errorReply(action.fail)})
	}
	if err := c.prepare(Requests, action); err != nil {
		return err
	}
	c.mu.Lock()
	c.waiting = append(c.waiting, request{raw: raw})
	c.mu.Unlock()
	if _, err := io.WriteString(c.Server, raw); err != nil {
		return err
	}
	action.passed()
	return nil
}

func (c *conn) reply(raw string) error {
	if c.isPush(raw) {
		// A push belongs to no request, so no rule applies to it.
		if err := c.prepare(Replies, Pass()); err != nil {
			return err
		}
		return c.push(raw)
	}
	c.mu.Lock()
	if len(c.waiting) == 0 {
		c.mu.Unlock()
		return errors.New("faultproxy: a reply without a request")
	}
	request := c.waiting[0].raw
	c.mu.Unlock()
	action := c.proxy.decide(Replies, request)
	if action.fail != "" {
		raw = errorReply(action.fail)
	} else if err := c.prepare(Replies, action); err != nil {
		return err
	}
	err := c.answer(raw)
	action.passed() // even if the client has gone
	return err
}

// answer writes the reply to the oldest request, and the forged ones behind it.
func (c *conn) answer(raw string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = c.waiting[1:]
	if _, err := io.WriteString(c.Client, raw); err != nil {
		return err
	}
	return c.writeForged()
}

// isPush reports whether a frame belongs to no request. RESP2 sends messages as arrays, and so it confirms the
// second and further channels of one SUBSCRIBE.
func (c *conn) isPush(raw string) bool {
	if raw[0] == '>' || strings.HasPrefix(raw, "*3\r\n$7\r\nmessage\r\n") {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) == 0 && strings.HasPrefix(raw, "*3\r\n$9\r\nsubscribe\r\n")
}

func (c *conn) push(raw string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := io.WriteString(c.Client, raw)
	return err
}

// forge answers a request without the server, in its turn.
func (c *conn) forge(r request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, r)
	return c.writeForged()
}

// writeForged needs mu. It writes the forged replies whose turn it is.
func (c *conn) writeForged() error {
	for len(c.waiting) > 0 && c.waiting[0].forged != "" && !c.dark[Replies].Load() {
		if _, err := io.WriteString(c.Client, c.waiting[0].forged); err != nil {
			return err
		}
		c.waiting = c.waiting[1:]
	}
	return nil
}

var errEnded = errors.New("faultproxy: ended by a rule")

// prepare does what comes before a frame is passed on; an error means that it is not.
func (c *conn) prepare(on Direction, a Action) error {
	if a.before != nil {
		if err := a.before(c, on); err != nil {
			return err
		}
	}
	if c.dark[on].Load() {
		<-c.Done
		return errEnded
	}
	return nil
}

// await waits for a value or the close of a channel; an error means that the connection ended before.
func await[T any](c *conn, what <-chan T) error {
	select {
	case <-what:
		return nil
	case <-c.Done:
		return errEnded
	}
}

func (a Action) passed() {
	if a.after != nil {
		a.after()
	}
}

func errorReply(text string) string { return "-" + text + "\r\n" }

// name returns the first word of a command in capitals.
func name(raw string) string {
	words, _ := proto.ReadStrings(raw)
	return strings.ToUpper(strings.Join(words[:min(len(words), 1)], ""))
}
