package service

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/logbook"
)

// A Process is a worker under signals, health checks and systemd.
type Process struct {
	Worker *launcher.Launcher
	// HealthAddr is the address of Health, such as 127.0.0.1:7421. If it is empty, health is not served.
	HealthAddr string
	// MetricsAddr is the address of Metrics, under /metrics, and of Health. If it is empty, neither is served
	// there.
	MetricsAddr string
	Metrics     http.Handler
	// Reopen is called at USR2. It may be nil, and may block.
	Reopen func()
	// Log receives a line for each signal.
	Log *slog.Logger
}

// Run runs the worker until ctx ends or a signal stops it. It returns the error of the worker's Run, or the
// reason why it could not start. It removes systemd's variables from the environment.
func (p Process) Run(ctx context.Context) error {
	p.Log = logbook.OrDiscard(p.Log)
	endHealth, err := p.serve(p.HealthAddr, "serving health checks", Health(p.Worker))
	if err != nil {
		return err
	}
	defer endHealth() // last, so that it reports the stop in progress
	if p.MetricsAddr != "" {
		endMetrics, err := p.serve(p.MetricsAddr, "serving metrics", p.withMetrics())
		if err != nil {
			return err
		}
		defer endMetrics()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer p.notifySystemd()()
	defer p.showTitle()()
	OutliveReaders()
	defer Signals{Worker: p.Worker, Stop: stop, Reopen: p.Reopen, Log: p.Log}.Obey()()
	return p.Worker.Run(ctx)
}
