package driver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// TLS is the TLS of a URL's connections. The files are PEM files, empty for none.
type TLS struct {
	// CA has the authorities that are trusted instead of the system's.
	CA string
	// Cert and Key have the client's certificate.
	Cert, Key string
	// ServerName is verified instead of the host.
	ServerName string
	// SkipVerify accepts every certificate, so a machine between client and server can read and change everything.
	SkipVerify bool
}

// Config reads the files and returns the configuration for one connection to a host. So certificates that are
// renewed while a program runs are used from the next connection on.
func (t *TLS) Config(host string) (*tls.Config, error) {
	config := &tls.Config{ServerName: host, InsecureSkipVerify: t.SkipVerify, MinVersion: tls.VersionTLS12} //nolint:gosec // asked for
	if t.ServerName != "" {
		config.ServerName = t.ServerName
	}
	if t.CA != "" {
		text, err := secretFile("ca", t.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, &AccessError{
				Advice: "ca in the Redis URL names a file of certificates in PEM form", Err: errors.New("the file of ca has no certificate"),
			}
		}
	}
	if t.Cert == "" {
		return config, nil
	}
	cert, err := secretFile("cert", t.Cert)
	if err != nil {
		return nil, err
	}
	key, err := secretFile("key", t.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &AccessError{
			Advice: "cert and key in the Redis URL name a certificate and its own key, in PEM form",
			Err:    fmt.Errorf("read the client's certificate: %w", err),
		}
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// handshake returns the connection with TLS. After an error it is closed.
func (t *TLS) handshake(ctx context.Context, raw net.Conn, addr string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(addr)
	config, err := t.Config(host)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	// The context ends the handshake by the deadline, not by closing the connection: it has one more use.
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	conn := tls.Client(raw, config)
	err = conn.HandshakeContext(context.WithoutCancel(ctx))
	ended := !stop()
	switch {
	case err == nil && !ended:
		return conn, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && answersPlain(raw):
		err = plainPort(err)
	case ctx.Err() != nil:
		err = ExplainTLS(ctx.Err())
	default:
		err = ExplainTLS(err)
	}
	_ = raw.Close()
	return nil, err
}

// answersPlain reports whether a server that was silent in a handshake speaks Redis without TLS: it took the
// handshake for a line and waits for the end of it.
func answersPlain(raw net.Conn) bool {
	_ = raw.SetDeadline(time.Now().Add(plainAnswer))
	if _, err := raw.Write([]byte("\r\n\r\n")); err != nil {
		return false
	}
	var reply [1]byte
	n, _ := raw.Read(reply[:])
	return n == 1 && reply[0] == '-'
}

// plainAnswer is how long answersPlain waits. The caller's time is over already, and a server that is alive
// answers a line at once.
const plainAnswer = 100 * time.Millisecond

// ExplainTLS returns the error of a dial with TLS with its cause, an *AccessError if waiting does not cure it.
// A Redis without TLS takes the handshake for the beginning of a line and waits for its end, so the error would
// only be an exceeded deadline; a server that is away can cause the same.
func ExplainTLS(err error) error {
	var (
		dial    *net.OpError
		plain   tls.RecordHeaderError
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		refused *tls.CertificateVerificationError
		known   *AccessError
	)
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &plain):
		return plainPort(err)
	case errors.As(err, &name):
		return &AccessError{Err: err, Advice: "the server's certificate is that of another name: give a host that it names, or server_name=NAME in the Redis URL"}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return &AccessError{Err: err, Advice: "the server's certificate has expired, or is not valid yet: renew it, and compare the clocks of both machines"}
	case errors.As(err, &unknown):
		return &AccessError{Err: err, Advice: "the server's certificate is not signed by an authority that this program trusts: give the authority by ca=FILE in the Redis URL"}
	case errors.As(err, &refused):
		return &AccessError{Err: err, Advice: "the server's certificate is not acceptable: renew it"}
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &dial):
		return fmt.Errorf("the server does not answer the TLS handshake, and probably does not speak TLS at this port: %s: %w", plainAdvice, err)
	}
	if refused := ExplainFirstRead(nil, err); refused != nil {
		return refused
	}
	return err
}

func plainPort(err error) error {
	return &AccessError{Err: fmt.Errorf("the server does not speak TLS at this port: %w", err), Advice: plainAdvice}
}

const plainAdvice = "write redis:// instead of rediss:// (with a TLS config of your own, remove it), or give the port with TLS"

// ExplainFirstRead returns an *AccessError if what a connection read first, or the error of that, shows that
// the server wants another TLS than the client's; nil otherwise.
func ExplainFirstRead(reply []byte, err error) error {
	var remote *net.OpError
	switch {
	case bytes.HasPrefix(reply, []byte{21, 3}): // the record of an alert
		return &AccessError{
			Err: errors.New("the server speaks TLS at this port"), Advice: "write rediss:// instead of redis://, or give the port without TLS",
		}
	case errors.As(err, &remote) && remote.Op == "remote error" && strings.Contains(err.Error(), "certificate"):
		return &AccessError{
			Err: fmt.Errorf("the server refused the client's certificate: %w", err),
			Advice: "this Redis wants a certificate of the client that one of its authorities has signed and that has not expired: " +
				"give it by cert=FILE&key=FILE in the Redis URL",
		}
	}
	return nil
}
