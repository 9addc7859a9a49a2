package driver_test

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/drivertest/adapters"
	"github.com/belayq/belay/driver/drivertest/relay"
)

// A Redis without TLS answers nothing to a handshake; other servers answer text.
func TestTLSToAPlainPortIsExplained(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t)
	text := relay.Serve(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "-ERR max number of clients reached\r\n")
		_, _ = io.Copy(io.Discard, conn)
	}).Addr()
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

// The error for a server that is away does not blame TLS.
func TestTLSToNoServerIsNotExplained(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		err := open(t, "rediss://127.0.0.1:1").Do(t.Context(), driver.Command("PING"))[0].Err
		require.ErrorContains(t, err, "connection refused")
		require.NotContains(t, strings.ToLower(err.Error()), "tls")
	})
}
