package slowlink

import (
	"net"
	"sync"
	"time"
)

// inFlight is how many chunks of a connection fit into one direction. A bandwidth of 100 Mbit/s fills 400
// of them in half a second; without a bandwidth, latency would otherwise hold what loopback delivers
// meanwhile.
const inFlight = 1024

type parcel struct {
	bytes   []byte
	arrives time.Time
}

// pass forwards both directions of a connection until one end is closed and the bytes sent before that have
// arrived.
func pass(client, server net.Conn, up, down *lane, done <-chan struct{}) {
	gone := make(chan struct{})
	cut := sync.OnceFunc(func() {
		close(gone)
		_ = client.Close()
		_ = server.Close()
	})
	var both sync.WaitGroup
	both.Go(func() { carry(server, client, up, gone, cut) })
	both.Go(func() { carry(client, server, down, gone, cut) })
	both.Go(func() {
		select {
		case <-done:
			cut()
		case <-gone:
		}
	})
	both.Wait()
}

// carry forwards bytes from one end to the other through a lane. It calls cut when the last byte has
// arrived.
func carry(to, from net.Conn, through *lane, gone <-chan struct{}, cut func()) {
	way := make(chan parcel, inFlight)
	var delivery sync.WaitGroup
	delivery.Go(func() {
		defer cut()
		deliver(to, way, gone)
	})
	defer delivery.Wait()
	defer close(way)
	for {
		buffer := make([]byte, chunk)
		n, err := from.Read(buffer)
		if n > 0 {
			sent, arrives := through.accept(n, time.Now())
			select {
			case way <- parcel{buffer[:n], arrives}:
			case <-gone:
				return
			}
			// A connection sends its next chunk after this one, so that others have their turn between the
			// two.
			if !wait(sent, gone) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func deliver(to net.Conn, way <-chan parcel, gone <-chan struct{}) {
	for p := range way {
		if !wait(p.arrives, gone) {
			return
		}
		if _, err := to.Write(p.bytes); err != nil {
			return
		}
	}
}

// wait blocks until an instant, and reports false if the connection is closed before.
func wait(until time.Time, gone <-chan struct{}) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-gone:
		return false
	}
}
