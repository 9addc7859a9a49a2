package faultproxy

import (
	"strings"
	"sync"
	"time"
)

// A Direction is the direction of a frame.
type Direction int

const (
	// Requests go to the server.
	Requests Direction = iota
	// Replies come from it.
	Replies
)

// A Rule applies an action to certain frames.
type Rule struct {
	// On reports whether the action applies to the request or to its reply.
	On Direction
	// Token is a part of the request: a command's name, a key, an argument. The empty token matches every
	// request.
	Token string
	// Nth counts the matches, from 1; 0 means all of them.
	Nth int
	// Do is what happens; the zero Action lets the frame pass.
	Do Action

	matched int
}

// An Action is what a rule does to a frame. The functions below return actions; the zero Action passes the
// frame.
type Action struct {
	// before runs before the frame is passed. After an error the connection is closed instead.
	before func(*conn, Direction) error
	after  func() // runs after the frame was passed
	fail   string // the text of an error reply that is sent instead
}

// Pass passes the frame. Before another rule it makes an exception to that rule.
func Pass() Action { return Action{} }

// Close closes the connection instead of passing the frame: a request never reaches the server, and a reply
// never arrives although its command was executed.
func Close() Action {
	return Action{before: func(*conn, Direction) error { return errEnded }}
}

// Delay passes the frame, and all later frames in its direction, after d.
func Delay(d time.Duration) Action {
	return Action{before: func(c *conn, _ Direction) error { return await(c, time.After(d)) }}
}

// Hold passes the frame, and all later frames in its direction, when the gate is opened.
func Hold(gate *Gate) Action {
	return Action{before: func(c *conn, _ Direction) error {
		gate.arrive.Do(func() { close(gate.arrived) })
		return await(c, gate.opened)
	}}
}

// Blackhole passes nothing in either direction, from this frame on; the connection stays open.
func Blackhole() Action {
	return Action{before: func(c *conn, _ Direction) error {
		c.dark[Requests].Store(true)
		c.dark[Replies].Store(true)
		return nil
	}}
}

// HalfOpen passes nothing in this frame's direction, from this frame on, and everything in the other; the
// connection stays open. On a reply, it is a peer that receives requests and whose replies are lost; on a
// request, it is a peer that does not even notice that the client has closed the connection.
func HalfOpen() Action {
	return Action{before: func(c *conn, on Direction) error {
		c.dark[on].Store(true)
		return nil
	}}
}

// Before calls f and passes the frame when f has returned; later frames in its direction wait too. On a
// request, the server has not received the command while f runs; on a reply, it has executed it, and no reply
// has arrived.
func Before(f func()) Action {
	return Action{before: func(*conn, Direction) error {
		f()
		return nil
	}}
}

// After passes the frame and then calls f; later frames in its direction wait until f has returned. On a
// request, the command may or may not have been executed when f runs, and its reply may be on its way: for
// certainty, use Before or After on the reply.
func After(f func()) Action { return Action{after: f} }

// Fail sends an error reply: instead of the server's reply, or, on a request, without sending it to the
// server.
func Fail(text string) Action { return Action{fail: text} }

// DropRequest loses the first request that contains token: the connection closes before the server receives
// it.
func DropRequest(token string) Rule { return Rule{On: Requests, Token: token, Nth: 1, Do: Close()} }

// DropReply loses the first reply to a request that contains token: the request is executed, and the
// connection closes.
func DropReply(token string) Rule { return Rule{On: Replies, Token: token, Nth: 1, Do: Close()} }

// A Gate holds frames until it is opened.
type Gate struct {
	arrive, open sync.Once
	arrived      chan struct{}
	opened       chan struct{}
}

// NewGate returns a closed gate.
func NewGate() *Gate {
	return &Gate{arrived: make(chan struct{}), opened: make(chan struct{})}
}

// Arrived returns a channel that is closed when the first frame has reached the gate, open or not.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Open passes the waiting frames and all later ones. A second call does nothing.
func (g *Gate) Open() { g.open.Do(func() { close(g.opened) }) }

// matches counts a frame and reports whether the rule applies to it.
func (r *Rule) matches(on Direction, request string) bool {
	if r.On != on || !strings.Contains(request, r.Token) {
		return false
	}
	r.matched++
	return r.Nth == 0 || r.matched == r.Nth
}
