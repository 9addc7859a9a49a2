package faultproxy

import (
	"bytes"
	"sync"
	"time"
)

// A Direction is the way a frame travels.
type Direction int

const (
	// Requests go to the server.
	Requests Direction = iota
	// Replies come from it.
	Replies
)

// A Rule does something to certain frames.
type Rule struct {
	// On says whether the action happens to the request or to its reply.
	On Direction
	// Token is contained in the request: a command's name, a key, an argument. The empty one is in every
	// request.
	Token string
	// Nth counts the matches, from 1; 0 means all of them.
	Nth int
	// Do is what happens; the zero Action lets the frame pass.
	Do Action

	matched int
}

// An Action is what a rule does to a frame. Use one of the functions that make them.
type Action struct {
	kind  kind
	delay time.Duration
	gate  *Gate
	text  string
	call  func()
}

type kind int

const (
	pass kind = iota
	closing
	delaying
	holding
	blackhole
	halfOpen
	calling
	passing
	failing
)

// Pass lets the frame through. Placed before another rule it makes an exception to it.
func Pass() Action { return Action{} }

// Close ends the connection instead of passing the frame on: a request never reaches the server, a reply never
// comes back though its command was executed.
func Close() Action { return Action{kind: closing} }

// Delay passes the frame, and with it all that follow in its direction, after d.
func Delay(d time.Duration) Action { return Action{kind: delaying, delay: d} }

// Hold passes the frame, and with it all that follow in its direction, when the gate is opened.
func Hold(gate *Gate) Action { return Action{kind: holding, gate: gate} }

// Blackhole passes nothing any more in either direction, from this frame on; the connection stays open.
func Blackhole() Action { return Action{kind: blackhole} }

// HalfOpen passes nothing any more in this frame's direction, from this frame on, and everything in the other
// one; the connection stays open. On a reply it is a peer that hears us and whose answers get lost; on a
// request, one that does not even learn that we have hung up.
func HalfOpen() Action { return Action{kind: halfOpen} }

// Fail answers with an error reply: in place of the reply, or, on a request, without asking the server.
func Fail(text string) Action { return Action{kind: failing, text: text} }

// DropRequest loses the first request that contains token: the connection ends before the server has it.
func DropRequest(token string) Rule { return Rule{On: Requests, Token: token, Nth: 1, Do: Close()} }

// DropReply loses the first reply to a request that contains token: executed, and the connection ends.
func DropReply(token string) Rule { return Rule{On: Replies, Token: token, Nth: 1, Do: Close()} }

// A Gate holds frames until it is opened.
type Gate struct {
	arrive, open sync.Once
	arrived      chan struct{}
	opened       chan struct{}
}

// NewGate makes a closed gate.
func NewGate() *Gate {
	return &Gate{arrived: make(chan struct{}), opened: make(chan struct{})}
}

// Arrived is closed when the first frame has come to the gate, open or not.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Open lets through what waits and all that comes later. Opening again does nothing.
func (g *Gate) Open() { g.open.Do(func() { close(g.opened) }) }

func (g *Gate) noteArrival() { g.arrive.Do(func() { close(g.arrived) }) }

// matches counts a frame and says whether the rule is for it.
func (r *Rule) matches(on Direction, request []byte) bool {
	if r.On != on || !bytes.Contains(request, []byte(r.Token)) {
		return false
	}
	r.matched++
	return r.Nth == 0 || r.matched == r.Nth
}
