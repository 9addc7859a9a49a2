package main

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/relay"
)

// far is a connection to an echo server through a proxy that delays each way.
func far(t *testing.T, each time.Duration) net.Conn {
	echo := relay.Serve(t, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
	proxy, err := startDelayProxy("tcp", echo.Addr(), each)
	require.NoError(t, err)
	t.Cleanup(proxy.close)
	conn, err := net.Dial("tcp", proxy.addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	return conn
}

func TestDelayProxy(t *testing.T) {
	t.Run("an answer comes a round trip later", func(t *testing.T) {
		conn := far(t, 20*time.Millisecond)
		for range 5 {
			began := time.Now()
			_, err := conn.Write([]byte("x"))
			require.NoError(t, err)
			_, err = io.ReadFull(conn, make([]byte, 1))
			require.NoError(t, err)
			require.GreaterOrEqual(t, time.Since(began), 40*time.Millisecond)
		}
	})

	t.Run("what is under way at the same time is delayed once, not one after the other", func(t *testing.T) {
		const words = 300
		conn := far(t, 50*time.Millisecond)
		go func() {
			for range words {
				_, _ = conn.Write([]byte("x"))
				time.Sleep(time.Millisecond) // so that they are many parcels; were they one, the test would still hold
			}
		}()
		_, err := io.ReadFull(conn, make([]byte, words))
		require.NoError(t, err, "three hundred round trips, each after the other, take longer than the connection may be used")
	})

	t.Run("bytes keep their order and none is lost", func(t *testing.T) {
		conn := far(t, time.Millisecond)
		sent := make([]byte, 4<<20)
		for i := range sent {
			sent[i] = byte(i * 7 >> 3)
		}
		go func() { _, _ = conn.Write(sent) }()
		got := make([]byte, len(sent))
		_, err := io.ReadFull(conn, got)
		require.NoError(t, err)
		require.Equal(t, sent, got)
	})

	t.Run("a cut at one end is a cut at the other", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { _ = listener.Close() }()
		proxy, err := startDelayProxy("tcp", listener.Addr().String(), time.Millisecond)
		require.NoError(t, err)
		defer proxy.close()
		client, err := net.Dial("tcp", proxy.addr())
		require.NoError(t, err)
		defer func() { _ = client.Close() }()
		server, err := listener.Accept()
		require.NoError(t, err)
		require.NoError(t, server.Close())
		require.NoError(t, client.SetReadDeadline(time.Now().Add(20*time.Second)))
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	})
}
