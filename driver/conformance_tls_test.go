package driver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/internal/drivertest/relay"
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

// overTLS checks that a client, a lane, a waiter and a Listen work over TLS, and that a certificate is verified.
func overTLS(t *testing.T, w *world) {
	addr := withTLS(t)
	client := w.openURL(t, "rediss://"+addr+"/3?skip_verify=true")
	lane := w.lane(t, client, 1)
	waiter := w.waiter(t, lane)
	l := listen(t, client, "news")
	l.on(t)
	large := strings.Repeat("x", 1<<20) // many records of TLS
	get(t, client, "LPUSH", "from", large)
	payload, ok, err := waiter.Wait(t.Context(), "from", "to", time.Second)
	require.NoError(t, err)
	require.True(t, ok)
	require.Len(t, payload, len(large))
	require.NoError(t, released(t, waiter, wait(t, waiter, "from", "to", 10*time.Second)).err)
	get(t, lane, "PUBLISH", "news", "done")
	require.Equal(t, "done", <-l.messages)

	err = w.openURL(t, "rediss://"+addr).Do(t.Context(), driver.Command("PING"))[0].Err
	requireNotSent(t, err)
	require.ErrorContains(t, err, "certificate")
}

// withTLS starts a server with TLS, whose certificate no client trusts, and returns its address.
func withTLS(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	cert, private := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600))
	require.NoError(t, os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	addr := drivertest.FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	drivertest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", private, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	return addr
}
