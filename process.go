package belay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// A Process runs a Server as a program of its own does, with signals, health checks and systemd. Main makes one; use it
// yourself in a program that reads its settings in its own way. Server.Run alone is for a server beside other things.
//
// Signals are Sidekiq's: TERM and INT stop, a second one at once; TSTP and USR1 quiet; TTIN logs what runs and where all
// goroutines stand; USR2 calls Reopen. Under systemd (Type=notify) it says READY=1 once the server is registered and
// STOPPING=1 when a stop begins, keeps STATUS up to date, and with WatchdogSec= pings for as long as Server.Health would
// call the server alive.
type Process struct {
	Server *Server
	// HealthAddr is the address, such as 127.0.0.1:7421, where Server.Health answers. Empty is nowhere.
	HealthAddr string
	// Reopen is called at USR2, so that a log that was moved away is opened anew. It may be nil, and may take its time.
	Reopen func()
}

// Run runs the server until ctx ends or a signal stops it. It answers what Server.Run does, or why it could not begin. It
// takes systemd's variables out of the environment: programs that this one starts are not the service.
func (p Process) Run(ctx context.Context) error {
	if p.Server == nil {
		return errors.New("belay: a Process without a Server")
	}
	if err := p.Server.Check(); err != nil {
		return err
	}
	endHealth, err := p.answerHealth()
	if err != nil {
		return err
	}
	defer endHealth() // last, so that it tells of the stop while that goes on
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer tellSystemd(p.Server, newNotifier(os.LookupEnv, os.Unsetenv))()
	defer p.obeySignals(stop)()
	return p.Server.Run(ctx)
}

// answerHealth serves Health until end is called.
func (p Process) answerHealth() (end func(), err error) {
	if p.HealthAddr == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", p.HealthAddr)
	if err != nil {
		return nil, fmt.Errorf("belay: listen for health checks: %w", err)
	}
	log := p.Server.book.Logger()
	log.Info().Str("address", listener.Addr().String()).Msg("answering health checks")
	server := &http.Server{Handler: p.Server.Health(), ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // until it is closed
	}()
	return func() {
		_ = server.Close()
		<-done
	}, nil
}
