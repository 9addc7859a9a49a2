package faultproxy

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/belayq/belay/driver/drivertest/resp"
)

// A conn is one client's connection and ours to the server for it.
type conn struct {
	proxy          *Proxy
	client, server net.Conn
	done           chan struct{}
	ending         sync.Once
	dark           [2]atomic.Bool // by direction: a rule has stopped the traffic

	mu      sync.Mutex // also orders what is written to the client
	waiting []request  // requests whose reply has not been passed on, oldest first
}

// A request waits for its reply, which forged holds if the server is not asked.
type request struct {
	raw    []byte
	forged []byte
}

func newConn(p *Proxy, client, server net.Conn) *conn {
	return &conn{proxy: p, client: client, server: server, done: make(chan struct{})}
}

func (c *conn) close() {
	c.ending.Do(func() {
		close(c.done)
		_ = c.client.Close()
		_ = c.server.Close()
	})
}

func (c *conn) run() {
	var replies sync.WaitGroup
	replies.Go(func() {
		defer c.close()
		_ = c.pumpReplies()
	})
	_ = c.pumpRequests()
	c.close()
	replies.Wait()
}

func (c *conn) pumpRequests() error {
	in := bufio.NewReader(c.client)
	for {
		frame, err := resp.Read(in)
		if err != nil {
			return err
		}
		c.proxy.arrived(frame.Name())
		action := c.proxy.decide(Requests, frame.Raw)
		if action.fail != "" {
			if err := c.forge(request{raw: frame.Raw, forged: errorReply(action.fail)}); err != nil {
				return err
			}
			continue
		}
		if err := c.prepare(Requests, action); err != nil {
			return err
		}
		c.mu.Lock()
		c.waiting = append(c.waiting, request{raw: frame.Raw})
		c.mu.Unlock()
		if _, err := c.server.Write(frame.Raw); err != nil {
			return err
		}
		action.passed()
	}
}

func (c *conn) pumpReplies() error {
	in := bufio.NewReader(c.server)
	for {
		frame, err := resp.Read(in)
		if err != nil {
			return err
		}
		if frame.Kind == '>' {
			// A push belongs to no request, so no rule applies to it.
			if err := c.prepare(Replies, Pass()); err != nil {
				return err
			}
			if err := c.push(frame.Raw); err != nil {
				return err
			}
			continue
		}
		if err := c.reply(frame.Raw); err != nil {
			return err
		}
	}
}

func (c *conn) reply(raw []byte) error {
	c.mu.Lock()
	if len(c.waiting) == 0 {
		c.mu.Unlock()
		return errors.New("faultproxy: a reply without a request")
	}
	asked := c.waiting[0].raw
	c.mu.Unlock()
	action := c.proxy.decide(Replies, asked)
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
func (c *conn) answer(raw []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = c.waiting[1:]
	if _, err := c.client.Write(raw); err != nil {
		return err
	}
	return c.writeForged()
}

func (c *conn) push(raw []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.client.Write(raw)
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
	for len(c.waiting) > 0 && c.waiting[0].forged != nil && !c.dark[Replies].Load() {
		if _, err := c.client.Write(c.waiting[0].forged); err != nil {
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
		<-c.done
		return errEnded
	}
	return nil
}

// await waits for a value or the close of a channel; an error means that the connection ended before.
func await[T any](c *conn, what <-chan T) error {
	select {
	case <-what:
		return nil
	case <-c.done:
		return errEnded
	}
}

func (a Action) passed() {
	if a.after != nil {
		a.after()
	}
}

func errorReply(text string) []byte { return []byte("-" + text + "\r\n") }
