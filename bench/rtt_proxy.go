package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/belayq/belay/bench/peers/measure"
)

// A delayProxy stands between clients and a server and delays all bytes, in order, each way. It does not
// limit the rate: bytes that are sent 1 ms after others arrive 1 ms after them, as on a long cable, so that
// pipelining helps.
type delayProxy struct {
	listener net.Listener
	network  string
	server   string
	each     time.Duration

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// startDelayProxy listens on a free loopback port for clients of the server at that address. each is the
// delay one way: a round trip takes twice as long, and a little more for the proxy's own work.
func startDelayProxy(network, server string, each time.Duration) (*delayProxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &delayProxy{listener: listener, network: network, server: server, each: each, ctx: ctx, cancel: cancel}
	p.running.Go(p.accept)
	return p, nil
}

// addr returns the address for clients.
func (p *delayProxy) addr() string { return p.listener.Addr().String() }

// close cuts all connections and returns when all goroutines of the proxy have ended.
func (p *delayProxy) close() {
	p.cancel()
	_ = p.listener.Close()
	p.running.Wait()
}

func (p *delayProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve carries both directions until one of them ends.
func (p *delayProxy) serve(client net.Conn) {
	server, err := net.Dial(p.network, p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	cut := sync.OnceFunc(func() { _ = errors.Join(client.Close(), server.Close()) })
	defer context.AfterFunc(p.ctx, cut)()
	var both sync.WaitGroup
	both.Go(func() { p.carry(server, client, cut) })
	both.Go(func() { p.carry(client, server, cut) })
	both.Wait()
}

// A parcel is bytes on their way.
type parcel struct {
	bytes []byte
	due   time.Time
}

// maxUnderWay is how many parcels fit into one direction. Half a millisecond of a loopback's full speed is
// some hundreds.
const maxUnderWay = 4096

// carry writes what it reads from one end to the other, after the delay.
func (p *delayProxy) carry(to io.Writer, from io.Reader, cut func()) {
	way := make(chan parcel, maxUnderWay)
	p.running.Go(func() {
		defer cut() // what is still read from then on goes nowhere, so let the reader find its end
		for parcel := range way {
			if measure.SleepUntil(p.ctx, parcel.due) != nil {
				break
			}
			if _, err := to.Write(parcel.bytes); err != nil {
				break
			}
		}
		for range way { // or the reader would wait for room
		}
	})
	defer close(way)
	for {
		buffer := make([]byte, 16<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			way <- parcel{bytes: buffer[:n], due: time.Now().Add(p.each)}
		}
		if err != nil {
			return
		}
	}
}
