package belay

import (
	"context"
	"errors"
	"net/http"

	"github.com/belayq/belay/launcher/service"
)

// A Process runs a Server as the main part of a program, with signals, health checks and systemd. Main makes
// one; use Process in a program that reads its own settings. Use Server.Run in a program that also does other
// things.
//
// Signals are Sidekiq's. TERM and INT stop the server; a second one ends the shutdown timeout. TSTP and USR1
// make it quiet. TTIN logs the running jobs and the stacks of all goroutines. USR2 calls Reopen. The same
// signal again within 200 ms is ignored, because GNU timeout sends two. Under systemd (Type=notify) the
// process sends READY=1 when the server is registered, STOPPING=1 when a stop begins, and STATUS. With
// WatchdogSec= it pings as long as /healthz of Server.Health would answer 200.
type Process struct {
	Server *Server
	// HealthAddr is the address, such as 127.0.0.1:7421, at which Server.Health is served. Empty: no health
	// checks.
	HealthAddr string
	// MetricsAddr is the address at which Metrics (under /metrics) and Server.Health are served. Empty: no
	// metrics. Package metrics makes the handler.
	MetricsAddr string
	Metrics     http.Handler
	// Reopen is called at USR2, to reopen a log file that was moved. It may be nil, and may block.
	Reopen func()
}

// Run runs the server until ctx ends or a signal stops it. It returns the error of Server.Run, or the reason
// why it could not start. It removes systemd's variables from the environment, because programs that this one
// starts are not the service.
func (p Process) Run(ctx context.Context) error {
	if p.Server == nil {
		return errors.New("belay: a Process without a Server")
	}
	p.Server.made("Process.Run")
	if err := p.Server.ready(); err != nil { // before a port is opened
		return err
	}
	if p.MetricsAddr != "" && p.Metrics == nil {
		return errors.New("belay: a Process with MetricsAddr and without Metrics")
	}
	defer p.Server.buffer.Flush(lastWords)
	return service.Process{
		Worker: p.Server.launcher, HealthAddr: p.HealthAddr, Reopen: p.Reopen, Log: p.Server.log,
		MetricsAddr: p.MetricsAddr, Metrics: p.Metrics,
	}.Run(ctx)
}
