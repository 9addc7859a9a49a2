package driver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
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
	// SkipVerify accepts every certificate, so a machine between client and server can read and change
	// everything.
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

// Unverified reports whether a configuration, which may be nil, accepts every certificate.
func Unverified(c *tls.Config) bool {
	return c != nil && c.InsecureSkipVerify && c.VerifyPeerCertificate == nil && c.VerifyConnection == nil
}

// handshake returns the connection with TLS. After an error it is closed.
func (t *TLS) handshake(ctx context.Context, raw net.Conn, addr string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(addr)
	config, err := t.Config(host)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	conn := tls.Client(raw, config)
	if err = conn.HandshakeContext(ctx); err == nil {
		return conn, nil
	}
	_ = raw.Close()
	if errors.Is(err, context.DeadlineExceeded) && speaksPlain(addr) {
		return nil, plainPort(err)
	}
	return nil, ExplainTLS(err)
}

// probeTimeout bounds a look at which protocol a server speaks. The caller's time is over already, and a server
// that is alive answers at once.
const probeTimeout = 200 * time.Millisecond

// speaksPlain reports whether the server at addr answers a PING without TLS.
func speaksPlain(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, probeTimeout)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(probeTimeout))
	_, _ = conn.Write([]byte("PING\r\n"))
	var reply [1]byte
	n, _ := conn.Read(reply[:])
	return n == 1 && (reply[0] == '+' || reply[0] == '-')
}

// speaksTLS reports whether the server at addr answers a handshake.
func speaksTLS(addr string) bool {
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{Timeout: probeTimeout}, Config: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // nothing is sent
	}
	conn, err := dialer.Dial("tcp", addr)
	if err == nil {
		_ = conn.Close()
	}
	var alert *net.OpError
	return err == nil || errors.As(err, &alert) && alert.Op == remoteError
}

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
	if refused := refusedCertificate(err); refused != nil {
		return refused
	}
	return err
}

func plainPort(err error) error {
	return &AccessError{Err: fmt.Errorf("the server does not speak TLS at this port: %w", err), Advice: plainAdvice}
}

const plainAdvice = "write redis:// instead of rediss:// (with a TLS config of your own, remove it), or give the port with TLS"

// ExplainFirstRead returns an *AccessError if what a connection read first, or the error of that, shows that
// the server wants another TLS than the client's; nil otherwise. If the server closed a connection without TLS
// before any reply, ExplainFirstRead looks whether it speaks TLS.
func ExplainFirstRead(conn net.Conn, reply []byte, err error) error {
	_, plain := conn.(*net.TCPConn)
	switch {
	case len(reply) > 0 && reply[0] == alertRecord,
		len(reply) == 0 && plain && (err == io.EOF || errors.Is(err, syscall.ECONNRESET)) && speaksTLS(conn.RemoteAddr().String()): //nolint:errorlint // as io.Reader has it
		return &AccessError{
			Err: errors.New("the server speaks TLS at this port"), Advice: "write rediss:// instead of redis://, or give the port without TLS",
		}
	}
	return refusedCertificate(err)
}

// ExplainFirstWrite is ExplainFirstRead for a connection whose first write failed: the reason may be there to
// be read. If it is an error reply, it becomes the beginning of the error.
func ExplainFirstWrite(conn net.Conn, err error) error {
	reply := make([]byte, 256)
	_ = conn.SetReadDeadline(time.Now().Add(lastReply))
	n, last := conn.Read(reply)
	if n > 0 && reply[0] == '-' {
		line, _, _ := strings.Cut(string(reply[1:n]), "\r\n")
		return fmt.Errorf("%s: %w", line, err)
	}
	return ExplainFirstRead(conn, reply[:n], last)
}

// lastReply bounds the read of the server's last reply after it closed the connection: the bytes are there
// already, or never arrive.
const lastReply = 10 * time.Millisecond

// alertRecord is the first byte of an alert of TLS, and remoteError the operation of its error in Go.
const (
	alertRecord = 21
	remoteError = "remote error"
)

// refusedCertificate returns an *AccessError if err is the server's alert about the client's certificate.
func refusedCertificate(err error) error {
	var remote *net.OpError
	if !errors.As(err, &remote) || remote.Op != remoteError || !strings.Contains(err.Error(), "certificate") {
		return nil
	}
	return &AccessError{
		Err: fmt.Errorf("the server refused the client's certificate: %w", err),
		Advice: "this Redis wants a certificate of the client that one of its authorities has signed and that has not expired: " +
			"give it by cert=FILE&key=FILE in the Redis URL",
	}
}
