package drivertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An Authority signs certificates for tests.
type Authority struct {
	// File has its own certificate.
	File string

	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns an Authority that nothing trusts yet. Its files end with the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{File: filepath.Join(t.TempDir(), "ca.pem")}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Belay's tests"}, NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	a.certificate, a.key = a.sign(t, template, a.File)
	return a
}

// Issue writes the files of a certificate and its key, for a server on loopback or a client. It is valid from
// now until then; change, if not nil, changes it first.
func (a *Authority) Issue(t testing.TB, change func(*x509.Certificate)) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	_, private := a.sign(t, template, cert)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, key, "PRIVATE KEY", der)
	return cert, key
}

// sign writes a certificate with a new key; the first one is that of the Authority itself.
func (a *Authority) sign(t testing.TB, template *x509.Certificate, file string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	parent, signer := template, key
	if a.certificate != nil {
		parent, signer = a.certificate, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, file, "CERTIFICATE", der)
	return certificate, key
}

func writePEM(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// StartTLS starts a private redis-server with the certificate, with args added to its command line, and returns
// it and the address of its port with TLS. It asks clients for no certificate unless args say so.
func StartTLS(t testing.TB, a *Authority, cert, key string, args ...string) (server *Server, addr string) {
	t.Helper()
	addr = FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	server = Start(t, append([]string{
		"--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", a.File, "--tls-auth-clients", "no",
	}, args...)...)
	return server, addr
}
