package driver_test

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/drivertest/adapters"
)

// A Redis without TLS answers nothing to a handshake; other servers answer text.
func TestTLSToAPlainPortIsExplained(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t)
	text := speaksFirst(t, "-ERR max number of clients reached\r\n")
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		for addr, says := range map[string]string{
			redis.Addr(): "does not answer the TLS handshake, and probably does not speak TLS at this port",
			text:         "does not speak TLS at this port",
		} {
			err := open(t, "rediss://"+addr).Do(t.Context(), driver.Command("PING"))[0].Err
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, "write redis:// instead of rediss://")
			require.True(t, driver.Certain(err), "%T", err)
			require.True(t, driver.Outage(err), "%T", err)
		}
	})
}

// A server that is away is not said to lack TLS.
func TestTLSToNoServerIsNotExplained(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		err := open(t, "rediss://127.0.0.1:1").Do(t.Context(), driver.Command("PING"))[0].Err
		require.ErrorContains(t, err, "connection refused")
		require.NotContains(t, strings.ToLower(err.Error()), "tls")
	})
}

// speaksFirst returns the address of a server that sends text to each connection, and reads until its end.
func speaksFirst(t *testing.T, text string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = conn.Write([]byte(text))
				for b := make([]byte, 1024); err == nil; {
					_, err = conn.Read(b)
				}
			}()
		}
	}()
	return listener.Addr().String()
}
