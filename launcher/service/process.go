package service

import (
	"context"
	"os"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/launcher"
)

// A Worker is what a Process runs, such as a launcher.Launcher.
type Worker interface {
	Commanded
	Judge
	Run(ctx context.Context) error
	// OnStop adds what is to be done when a stop begins. A Process says it before Run.
	OnStop(hook func())
	// Busy is how many jobs run, and Concurrency how many may run at once.
	Busy() int
	Concurrency() int
}

// Commanded is what signals speak to.
type Commanded interface {
	Quiet()
	// Stop ends Run; a second call does so at once.
	Stop()
	Dump()
}

// A Judge says how a worker is.
type Judge interface {
	Ready(ctx context.Context) launcher.Finding
	Alive(ctx context.Context) launcher.Finding
}

// A Process is a worker under signals, health checks and systemd.
type Process struct {
	Worker Worker
	// HealthAddr is the address, such as 127.0.0.1:7421, where Health answers. Empty is nowhere.
	HealthAddr string
	// Beside is called in a goroutine of its own when the worker starts, with a context that ends with the worker. The process does
	// not wait for it. It may be nil.
	Beside func(ctx context.Context)
	// Reopen is called at USR2. It may be nil, and may take its time.
	Reopen func()
	// Log receives what the process was told. Nothing waits for its reader if package logbook made it.
	Log zerolog.Logger
}

// Run runs the worker until ctx ends or a signal stops it. It answers what the worker's Run does, or why it could not
// begin. It takes systemd's variables out of the environment: programs that this one starts are not the service.
func (p Process) Run(ctx context.Context) error {
	endHealth, err := p.answerHealth()
	if err != nil {
		return err
	}
	defer endHealth() // last, so that it tells of the stop while that goes on
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer p.tellSystemd(newNotifier(os.LookupEnv, os.Unsetenv))()
	OutliveReaders()
	if p.Beside != nil {
		go p.Beside(ctx)
	}
	defer Signals{Worker: p.Worker, Stop: stop, Reopen: p.Reopen, Log: p.Log}.Obey()()
	return p.Worker.Run(ctx)
}
