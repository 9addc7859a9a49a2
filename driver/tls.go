package driver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// ExplainTLS returns the error of a dial with TLS, and what probably caused it if the server did not answer the
// handshake by TLS. A Redis without TLS waits for the end of a line that never comes, so that the error would
// only be an exceeded deadline.
func ExplainTLS(err error) error {
	var dial *net.OpError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &plain):
		return fmt.Errorf("the server does not speak TLS at this port: %s: %w", tlsAdvice, err)
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &dial):
		return fmt.Errorf("the server does not answer the TLS handshake, and probably does not speak TLS at this port: %s: %w", tlsAdvice, err)
	}
	return err
}

const tlsAdvice = "write redis:// instead of rediss:// (with a TLS config of your own, remove it), or give the port with TLS"
