package driver_test

import (
	"crypto/x509"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/internal/drivertest/relay"
)

// A Redis without TLS answers nothing to a handshake; other servers answer text. Neither is told the password.
func TestTLSToAPlainPortIsExplained(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t)
	var told drivertest.Buffer
	text := relay.Serve(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "-ERR max number of clients reached\r\n")
		_, _ = io.Copy(&told, conn)
	}).Addr()
	silent := relay.Serve(t, func(conn net.Conn) { _, _ = io.Copy(&told, conn) }).Addr()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		for addr, denied := range map[string]bool{redis.Addr(): true, text: true, silent: false} { // the silent one may be away
			err := open(t, "rediss://:"+canary+"@"+addr).Do(t.Context(), driver.Command("PING"))[0].Err
			require.ErrorContains(t, err, "does not speak TLS at this port")
			require.ErrorContains(t, err, "write redis:// instead of rediss://")
			require.Equal(t, denied, driver.Denial(err) != "", "%v", err)
			require.True(t, driver.Certain(err), "%T", err)
			require.True(t, driver.Outage(err), "%T", err)
			require.NotContains(t, told.String(), canary)
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
	authority := drivertest.NewAuthority(t)
	cert, key := authority.Issue(t, nil)
	_, addr := drivertest.StartTLS(t, authority, cert, key)
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

// mostProbes is in how many dials a busy server must answer one probe: each waits for a fifth of a second at most.
const mostProbes = 20

// Each certificate that is not accepted has an error that says so, and what to do. It is known that nothing was
// sent.
func TestTLSErrorsAreExplained(t *testing.T) {
	t.Parallel()
	authority, other := drivertest.NewAuthority(t), drivertest.NewAuthority(t)
	server := func(change func(*x509.Certificate), args ...string) string {
		cert, key := authority.Issue(t, change)
		_, addr := drivertest.StartTLS(t, authority, cert, key, args...)
		return addr
	}
	right, named := server(nil), server(func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"redis.example.com"} })
	expired := server(func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	})
	mutual := server(nil, "--tls-auth-clients", "yes")
	cert, key := authority.Issue(t, nil)
	foreign, foreignKey := other.Issue(t, nil)
	trusting := "?ca=" + authority.File
	as := func(cert, key string) string { return trusting + "&cert=" + cert + "&key=" + key }
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		for name, row := range map[string]struct{ url, denial string }{
			"right":                      {"rediss://" + right + trusting, ""},
			"unknown_authority":          {"rediss://" + right, "give the authority by ca=FILE"},
			"wrong_authority":            {"rediss://" + right + "?ca=" + other.File, "give the authority by ca=FILE"},
			"expired":                    {"rediss://" + expired + trusting, "has expired"},
			"wrong_name":                 {"rediss://" + named + trusting, "another name"},
			"right_name":                 {"rediss://" + named + trusting + "&server_name=redis.example.com", ""},
			"unverified":                 {"rediss://" + expired + "?skip_verify=true", ""},
			"no_client_certificate":      {"rediss://:" + canary + "@" + mutual + trusting, "give it by cert=FILE&key=FILE"},
			"wrong_client_certificate":   {"rediss://:" + canary + "@" + mutual + as(foreign, foreignKey), "give it by cert=FILE&key=FILE"},
			"right_client_certificate":   {"rediss://" + mutual + as(cert, key), ""},
			"a_key_of_another":           {"rediss://" + mutual + as(cert, foreignKey), "a certificate and its own key"},
			"no_file":                    {"rediss://" + right + "?ca=/" + canary, "the file that ca in the Redis URL names"},
			"no_certificate_in_the_file": {"rediss://" + right + "?ca=" + key, "certificates in PEM form"},
			"plain":                      {"redis://" + right, "write rediss:// instead of redis://"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				client := open(t, row.url)
				waiter, failed := client.Waiter()
				require.NoError(t, failed)
				defer func() { require.NoError(t, waiter.Close()) }()
				for _, try := range []func() error{
					func() error { return client.Do(t.Context(), driver.Command("PING"))[0].Err },
					func() error { _, _, err := waiter.Wait(t.Context(), "from", "to", time.Millisecond); return err },
				} {
					err := try()
					// A busy server does not answer a probe of its protocol in time. The next dial probes again.
					for probes := 1; name == "plain" && driver.Denial(err) == "" && probes < mostProbes; probes++ {
						err = try()
					}
					if row.denial == "" {
						require.NoError(t, err)
						continue
					}
					requireNotSent(t, err)
					require.Contains(t, driver.Denial(err), row.denial, "%v", err)
					require.ErrorContains(t, err, row.denial, "for programs that show only the error")
					require.True(t, driver.Outage(err))
					require.NotContains(t, err.Error(), canary)
				}
				unverified, _ := client.(interface{ Unverified() bool })
				require.Equal(t, name == "unverified", unverified.Unverified())
			})
		}
	})
}

// Files are read again at the next connection: a renewed authority and a renewed client's certificate need no
// restart.
func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		authority := drivertest.NewAuthority(t)
		cert, key := authority.Issue(t, nil)
		server, addr := drivertest.StartTLS(t, authority, cert, key, "--tls-auth-clients", "yes")
		own, ownKey := authority.Issue(t, nil)
		client := open(t, "rediss://"+addr+"?ca="+authority.File+"&cert="+own+"&key="+ownKey)
		get(t, client, "PING")

		renewed := drivertest.NewAuthority(t)
		overwrite := func(target string, source string) {
			text, err := os.ReadFile(source)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(target, text, 0o600))
		}
		serverCert, serverKey := renewed.Issue(t, nil)
		clientCert, clientKey := renewed.Issue(t, nil)
		overwrite(cert, serverCert)
		overwrite(key, serverKey)
		old, err := os.ReadFile(authority.File)
		require.NoError(t, err)
		overwrite(authority.File, renewed.File) // the server reads it too
		server.Restart(t)
		require.NoError(t, os.WriteFile(authority.File, old, 0o600))
		drivertest.Eventually(t, func() bool {
			return driver.Denial(client.Do(t.Context(), driver.Command("PING"))[0].Err) != ""
		}, 10*time.Second, time.Millisecond, "the old authority does not do")
		overwrite(authority.File, renewed.File)
		drivertest.Eventually(t, func() bool {
			return strings.Contains(driver.Denial(client.Do(t.Context(), driver.Command("PING"))[0].Err), "cert=FILE")
		}, 10*time.Second, time.Millisecond, "nor does the old certificate of the client")
		overwrite(own, clientCert)
		overwrite(ownKey, clientKey)
		get(t, client, "PING")
	})
}
