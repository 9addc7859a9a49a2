package slowlink

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/relay"
)

// A trial is a link without sockets, in virtual time.
type trial struct {
	t        *testing.T
	up, down lane
	conns    []*relay.Conn
}

func newTrial(t *testing.T, speed Speed) *trial {
	tr := &trial{t: t}
	tr.up.set(speed)
	tr.down.set(speed)
	return tr
}

// dial opens a connection and answers both of its outer ends.
func (tr *trial) dial() (client, server net.Conn) {
	client, near := net.Pipe()
	far, server := net.Pipe()
	c := relay.NewConn(near, far)
	tr.conns = append(tr.conns, c)
	go pass(c, &tr.up, &tr.down)
	return client, server
}

// close closes all connections.
func (tr *trial) close() {
	for _, c := range tr.conns {
		c.Close()
	}
}

// write sends n bytes without waiting for their arrival. An error would show as bytes that are not
// received.
func (tr *trial) write(to net.Conn, n int) {
	go func() { _, _ = to.Write(make([]byte, n)) }()
}

// receive reads n bytes and answers how long that took.
func (tr *trial) receive(from net.Conn, n int) time.Duration {
	began := time.Now()
	_, err := io.ReadFull(from, make([]byte, n))
	require.NoError(tr.t, err)
	return time.Since(began)
}

func TestEachDirectionTakesHalfARoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, Speed{RoundTrip: 250 * time.Millisecond})
		client, server := tr.dial()
		defer tr.close()
		tr.write(client, 10)
		require.Equal(t, 125*time.Millisecond, tr.receive(server, 10))
		tr.write(server, 10)
		require.Equal(t, 125*time.Millisecond, tr.receive(client, 10))
	})
}

func TestLatencyDoesNotLimitThroughput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, Speed{RoundTrip: time.Second})
		client, server := tr.dial()
		defer tr.close()
		tr.write(client, 100*chunk)
		require.Equal(t, time.Second/2, tr.receive(server, 100*chunk), "a hundred chunks travel at the same time")
	})
}

func TestBandwidthIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, Speed{RoundTrip: 100 * time.Millisecond, BitsPerSecond: 10 * Mbit})
		client, server := tr.dial()
		defer tr.close()
		tr.write(client, 1_250_000)
		require.Equal(t, time.Second+50*time.Millisecond-burst, tr.receive(server, 1_250_000))
		up, down := tr.up.sent(), tr.down.sent()
		require.Equal(t, []int64{1_250_000, 0}, []int64{up, down})
	})
}

// A heartbeat that is sent while another connection transfers a page waits for one chunk of it, not for
// all.
func TestConnectionsShareTheBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, Speed{BitsPerSecond: 10 * Mbit})
		page, pageServer := tr.dial()
		beat, beatServer := tr.dial()
		defer tr.close()
		tr.write(page, 1_250_000)
		go func() { _, _ = io.Copy(io.Discard, pageServer) }()
		time.Sleep(500 * time.Millisecond)
		tr.write(beat, 100)
		require.LessOrEqual(t, tr.receive(beatServer, 100), 2*tr.up.speed.transmission(chunk))

		other, otherServer := tr.dial()
		tr.write(other, 125_000)
		alone := tr.up.speed.transmission(125_000)
		require.InDelta(t, 2*alone, tr.receive(otherServer, 125_000), float64(alone)/4, "two share what one would have")
	})
}

func TestDirectionsDoNotShareTheBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, Speed{BitsPerSecond: 10 * Mbit})
		client, server := tr.dial()
		defer tr.close()
		tr.write(client, 1_250_000)
		tr.write(server, 1_250_000)
		go func() { _, _ = io.Copy(io.Discard, server) }()
		require.Equal(t, time.Second-burst, tr.receive(client, 1_250_000))
	})
}

func TestASpeedThatIsSetHoldsForOpenConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, Speed{})
		client, server := tr.dial()
		defer tr.close()
		tr.write(client, 10)
		require.Zero(t, tr.receive(server, 10))
		tr.up.set(Speed{RoundTrip: time.Second})
		tr.write(client, 10)
		require.Equal(t, time.Second/2, tr.receive(server, 10))
	})
}

// What a process had sent before it was killed still arrives, as it does on a real link.
func TestWhatWasSentBeforeTheEndArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, Speed{RoundTrip: time.Second})
		client, server := tr.dial()
		tr.write(client, 10)
		synctest.Wait()
		require.NoError(t, client.Close())
		require.Equal(t, time.Second/2, tr.receive(server, 10))
		_, err := server.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	})
}
