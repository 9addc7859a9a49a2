package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/belayq/belay/launcher"
)

// Health serves GET /healthz from Alive and GET /readyz from Ready: status 200 or 503, and the Finding as
// JSON.
func Health(judge Judge) http.Handler {
	mux := http.NewServeMux()
	for path, ask := range map[string]func(context.Context) launcher.Finding{"/healthz": judge.Alive, "/readyz": judge.Ready} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			found := ask(r.Context())
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			if !found.OK {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_ = json.NewEncoder(w).Encode(found) // an error means that the client has gone
		})
	}
	return mux
}

// probeTimeout bounds reading a request and writing its response: several times the default timeout of a
// probe.
const probeTimeout = 5 * time.Second

// serveHealth serves Health until end is called.
func (p Process) serveHealth() (end func(), err error) {
	if p.HealthAddr == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", p.HealthAddr)
	if err != nil {
		return nil, fmt.Errorf("belay: listen for health checks: %w", err)
	}
	p.Log.Info().Str("address", listener.Addr().String()).Msg("serving health checks")
	server := &http.Server{Handler: Health(p.Worker), ReadTimeout: probeTimeout, WriteTimeout: probeTimeout, MaxHeaderBytes: 16 << 10}
	// Each probe has its own connection: a connection kept alive holds a descriptor that jobs may need.
	server.SetKeepAlivesEnabled(false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(&bounded{Listener: listener}) // until it is closed
	}()
	return func() {
		_ = server.Close()
		<-done
	}, nil
}
