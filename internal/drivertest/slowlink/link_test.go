package slowlink_test

import (
	"bufio"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/proto"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/resp"
	"github.com/belayq/belay/internal/drivertest/slowlink"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// A reply of a megabyte takes at least a round trip and the time of its bytes, and is whole.
func TestRedisBehindALink(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	server := drivertest.Redis(t)
	key, value := drivertest.Prefix(t)+"large", strings.Repeat("x", size)
	_, err := server.Do(t.Context(), "SET", key, value)
	require.NoError(t, err)
	link := slowlink.New(t, server.Addr(), slowlink.Speed{RoundTrip: 40 * time.Millisecond, BitsPerSecond: 100 * slowlink.Mbit})
	conn, err := net.Dial("tcp", link.Addr())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	began := time.Now()
	require.NoError(t, proto.Write(conn, []string{"GET", key}))
	got, err := resp.Read(bufio.NewReader(conn))
	require.NoError(t, err)
	require.Equal(t, value, got)
	require.Greater(t, time.Since(began), 40*time.Millisecond+size*8*time.Second/(100*slowlink.Mbit)/2)
	up, down := link.Bytes()
	require.Positive(t, up)
	require.Greater(t, down, int64(size))
	link.Close()
	link.Close()
}
