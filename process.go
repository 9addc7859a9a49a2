package belay

import (
	"context"
	"errors"
	"net/http"

	"github.com/belayq/belay/launcher/service"
)

// ProcessConfig configures Server.RunProcess. The zero value is ready.
type ProcessConfig struct {
	// HealthAddr is the address at which Server.Health is served, such as 127.0.0.1:7421. Default: none.
	HealthAddr string
	// MetricsAddr is the address at which Metrics, under /metrics, and Server.Health are served, such as
	// 127.0.0.1:9090. There is no authentication. Default: none.
	MetricsAddr string
	// Metrics makes the handler of /metrics: metrics.ForServer. Without it a MetricsAddr is an error: this
	// package does not import Prometheus' client library, which would become a dependency of every program.
	Metrics func(*Client, *Server) (http.Handler, error)
	// Reopen is called at USR2, to reopen a log file that was moved. It may block. Default: nothing is called.
	Reopen func()
}

// RunProcess runs the server as the main part of a program, with signals, health checks and systemd, until ctx
// ends or a signal stops it. Main calls it; use RunProcess in a program that reads its own settings, and Run in
// a program that also does other things. It returns the error of Run, or the reason why it could not start.
//
// Signals are Sidekiq's. TERM and INT stop the server; a second one ends the shutdown timeout. TSTP and USR1
// make it quiet. TTIN logs the running jobs and the stacks of all goroutines. USR2 calls Reopen. The same
// signal again within 200 ms is ignored, because GNU timeout sends two.
//
// Under systemd (Type=notify) the process sends READY=1 when the server is registered, STOPPING=1 when a stop
// begins, and STATUS. With WatchdogSec= it pings as long as /healthz of Server.Health would answer 200.
// RunProcess removes systemd's variables from the environment, because programs that this one starts are not
// the service.
func (s *Server) RunProcess(ctx context.Context, cfg ProcessConfig) error {
	process := service.Process{
		Worker: s.made("RunProcess"), HealthAddr: cfg.HealthAddr, MetricsAddr: cfg.MetricsAddr, Reopen: cfg.Reopen, Log: s.log,
	}
	if cfg.MetricsAddr != "" {
		if cfg.Metrics == nil {
			return errors.New("belay: RunProcess: MetricsAddr without Metrics; set it to metrics.ForServer")
		}
		var err error
		if process.Metrics, err = cfg.Metrics(s.client, s); err != nil {
			return err
		}
	}
	return s.run(ctx, process.Run)
}
