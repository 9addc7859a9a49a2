package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A demoFleet is the demonstration's worker processes.
type demoFleet struct {
	redis   *demoRedis
	ledger  *ledger
	spawner *spawner
	alive   []*demoProcess
	started int
}

// A demoProcess is one worker process.
type demoProcess struct {
	number  int
	pid     int
	logged  tail // the end of its log
	running map[string]bool
	how     string        // how it ended
	gone    chan struct{} // closed when the process has ended and its last report is in the ledger
}

func (p *demoProcess) String() string {
	return fmt.Sprintf("worker %d (pid %d)", p.number, p.pid)
}

// fill starts workers up to a number. It is an error if one has ended by itself.
func (f *demoFleet) fill(workers int) error {
	for _, p := range f.alive {
		select {
		case <-p.gone:
			return fmt.Errorf("%v ended by itself (%s): %s", p, cmp.Or(p.how, "exit status 0"), cmp.Or(p.logged.String(), "it logged nothing"))
		default:
		}
	}
	for len(f.alive) < workers {
		p, err := f.start()
		if err != nil {
			return fmt.Errorf("start a worker: %w", err)
		}
		f.alive = append(f.alive, p)
	}
	return nil
}

func (f *demoFleet) start() (*demoProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f.started++
	p := &demoProcess{number: f.started, running: make(map[string]bool), gone: make(chan struct{})}
	cmd := exec.Command(self, demoWorkerName, "--client", f.redis.client, "--prefix", f.redis.prefix)
	// Not in a flag: every user can read the command line of a process.
	cmd.Env = append(withoutRedis(os.Environ()), urlVariables[0]+"="+f.redis.url)
	reports, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = output, &p.logged
	exit, err := f.spawner.start(cmd)
	_ = output.Close()
	if err != nil {
		_ = reports.Close()
		return nil, err
	}
	p.pid = cmd.Process.Pid
	go func() {
		defer close(p.gone)
		f.ledger.read(reports, p.running) // to the end: what was written before a SIGKILL is still in the pipe
		_ = reports.Close()
		p.how = ending(<-exit)
		finish(cmd, demoTimeout)
	}()
	return p, nil
}

// kill kills a worker that has running jobs, none of which was interrupted before, and returns the number of
// these jobs. A job whose worker crashes repeatedly would be quarantined, which is not what the demonstration
// shows.
func (f *demoFleet) kill() (name string, running int) {
	i := slices.IndexFunc(f.alive, func(p *demoProcess) bool { return f.ledger.mayInterrupt(p.running) })
	if i < 0 {
		return "", 0
	}
	p := f.alive[i]
	killGroup(p.pid)
	<-p.gone
	f.alive = slices.Delete(f.alive, i, i+1) // the next kill hits another worker, as new ones come last
	return p.String(), f.ledger.interrupt(p.running)
}

// stop stops all workers as an operator does, and kills those that do not end.
func (f *demoFleet) stop() {
	for _, p := range f.alive {
		_ = syscall.Kill(p.pid, syscall.SIGTERM)
	}
	// Longer than a worker's shutdown timeout and its wait for Redis together.
	patience := time.After(demoShutdown + 4*time.Second)
	for _, p := range f.alive {
		select {
		case <-p.gone:
		case <-patience:
			patience = time.After(0)
		}
		killGroup(p.pid)
		<-p.gone
	}
	f.alive = nil
}

func (f *demoFleet) close() {
	f.stop()
	f.spawner.close()
}

// A ledger counts what the workers report. A job is done when its handler reported the end, whatever Redis
// holds.
type ledger struct {
	mu          sync.Mutex     // guards the running jobs of each worker too
	starts      map[string]int // by jid
	done        map[string]bool
	interrupted map[string]bool // jobs that were running in a killed worker
}

const (
	lineStart = "start "
	lineEnd   = "end "
)

func newLedger() *ledger {
	return &ledger{starts: make(map[string]int), done: make(map[string]bool), interrupted: make(map[string]bool)}
}

// read reads the reports of one worker to their end.
func (l *ledger) read(reports io.Reader, running map[string]bool) {
	for lines := bufio.NewScanner(reports); lines.Scan(); {
		l.mu.Lock()
		if jid, ok := strings.CutPrefix(lines.Text(), lineStart); ok {
			l.starts[jid]++
			running[jid] = true
		} else if jid, ok := strings.CutPrefix(lines.Text(), lineEnd); ok {
			l.done[jid] = true
			delete(running, jid)
		}
		l.mu.Unlock()
	}
}

// count fills in a report.
func (l *ledger) count(r *report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Done, r.Interrupted = len(l.done), len(l.interrupted)
	for _, starts := range l.starts {
		r.Reruns += starts - 1
	}
}

// mayInterrupt reports whether a worker has running jobs, none of which was interrupted before.
func (l *ledger) mayInterrupt(running map[string]bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for jid := range running {
		if l.interrupted[jid] {
			return false
		}
	}
	return len(running) > 0
}

// interrupt records that a worker was killed, and returns how many jobs were running in it.
func (l *ledger) interrupt(running map[string]bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for jid := range running {
		l.interrupted[jid] = true
	}
	return len(running)
}
