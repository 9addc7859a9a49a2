package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/belayq/belay/launcher"
)

// withMetrics is Health with GET /metrics.
func (p Process) withMetrics() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", Health(p.Worker))
	mux.Handle("GET /metrics", p.Metrics)
	return mux
}

// Health serves GET /healthz from Alive and GET /readyz from Ready: status 200 or 503, and the Finding as
// JSON.
func Health(worker *launcher.Launcher) http.Handler {
	mux := http.NewServeMux()
	serve := func(path string, judge func(context.Context) launcher.Finding) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			found := judge(r.Context())
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			if !found.OK {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_ = json.NewEncoder(w).Encode(found) // an error means that the client has gone
		})
	}
	serve("/healthz", worker.Alive)
	serve("/readyz", worker.Ready)
	return mux
}

// probeTimeout bounds reading a request and writing its response: as long as Prometheus waits by default, and
// several times the default timeout of a probe.
const probeTimeout = 10 * time.Second

// serve serves a handler at an address until end is called; nothing without an address. message is logged.
func (p Process) serve(addr, message string, handler http.Handler) (end func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("belay: listen for %s: %w", strings.TrimPrefix(message, "serving "), err)
	}
	p.Log.Info(message, "address", listener.Addr().String())
	server := &http.Server{Handler: handler, ReadTimeout: probeTimeout, WriteTimeout: probeTimeout, MaxHeaderBytes: 16 << 10}
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
