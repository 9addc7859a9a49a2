package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// LoopbackHosts are the names by which a browser on the same machine addresses a server; see Config.Hosts.
func LoopbackHosts() []string { return []string{"localhost", "127.0.0.1", "::1"} }

// ErrNoUsers is the error of Listen for an address that other machines can reach, if there are no users.
var ErrNoUsers = errors.New("the address can be reached from other machines, and no user is configured")

// Listen opens an address for Serve. An address that other machines can reach needs users: with nil or an empty
// set the error is ErrNoUsers.
func Listen(addr string, users *Users) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	if tcp, is := listener.Addr().(*net.TCPAddr); is && !tcp.IP.IsLoopback() && users.Len() == 0 {
		_ = listener.Close()
		return nil, fmt.Errorf("listen on %s: %w", addr, ErrNoUsers)
	}
	return listener, nil
}

const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	// writeTimeout leaves a slow link time to receive the page of a request that took all of requestTimeout.
	writeTimeout = requestTimeout + 20*time.Second
	idleTimeout  = time.Minute
	maxHeader    = 16 << 10
	stopTimeout  = 3 * time.Second
)

// server returns the server of the dashboard for these users.
func (d *Dashboard) server(users *Users) *http.Server {
	handler := held(d)
	if users != nil {
		handler = users.Require(d)
	}
	return &http.Server{
		Handler: handler, ConnContext: withConn, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(d.cfg.Logger.Handler(), slog.LevelWarn),
	}
}

// Serve serves a dashboard until ctx ends, and records samples for its plots. It admits only these users: with
// an empty set no request, and with nil every request.
func Serve(ctx context.Context, listener net.Listener, d *Dashboard, users *Users) error {
	server := d.server(users)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() { ended <- d.Run(ctx) }()
	go func() {
		<-ctx.Done()
		stopping, done := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer done()
		ended <- server.Shutdown(stopping)
	}()
	err := server.Serve(limit(listener, maxConns, maxConnsOfOne))
	cancel()
	stopped := errors.Join(<-ended, <-ended)
	if errors.Is(err, http.ErrServerClosed) {
		return stopped
	}
	return err
}
