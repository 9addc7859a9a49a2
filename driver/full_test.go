package driver_test

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
)

// A server with too many clients closes a new connection behind its reply. The client sees that it is full, also
// if the password that it has sent hides the reply.
func TestAFullServerIsRecognized(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		server := drivertest.Start(t, "--maxclients", "1")
		conn, err := net.Dial("tcp", server.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = conn.Write([]byte("PING\r\n"))
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, len("+PONG\r\n")))
		require.NoError(t, err)
		for _, url := range []string{server.URL(), strings.Replace(server.URL(), "redis://", "redis://default:any@", 1)} {
			for range 100 {
				err := open(t, url).Do(t.Context(), driver.Command("PING"))[0].Err
				require.True(t, driver.TooManyClients(err), "%s: %v", url, err)
			}
		}
	})
}
