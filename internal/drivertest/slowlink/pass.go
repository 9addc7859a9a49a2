package slowlink

import (
	"net"
	"sync"
	"time"

	"github.com/belayq/belay/internal/drivertest/relay"
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
func pass(c *relay.Conn, up, down *lane) {
	var both sync.WaitGroup
	both.Go(func() { carry(c, c.Server, c.Client, up) })
	both.Go(func() { carry(c, c.Client, c.Server, down) })
	both.Wait()
}

// carry forwards bytes from one end to the other through a lane. It closes the connection when the last byte
// has arrived.
func carry(c *relay.Conn, to, from net.Conn, through *lane) {
	way := make(chan parcel, inFlight)
	var delivery sync.WaitGroup
	delivery.Go(func() {
		defer c.Close()
		deliver(to, way, c.Done)
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
			case <-c.Done:
				return
			}
			// A connection sends its next chunk after this one, so that others have their turn between the
			// two.
			if !wait(sent, c.Done) {
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
	select {
	case <-time.After(time.Until(until)):
		return true
	case <-gone:
		return false
	}
}
