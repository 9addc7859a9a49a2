package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
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
	cmd     *exec.Cmd
	logged  *tail // the end of its log
	running map[string]bool
	gone    chan struct{} // closed when the process has ended and its last report is in the ledger
}

func (p *demoProcess) String() string {
	return fmt.Sprintf("worker %d (pid %d)", p.number, p.cmd.Process.Pid)
}

func newDemoFleet(redis *demoRedis, ledger *ledger) *demoFleet {
	return &demoFleet{redis: redis, ledger: ledger, spawner: newSpawner()}
}

// fill starts workers up to a number. It is an error if one has ended by itself.
func (f *demoFleet) fill(workers int) error {
	for _, p := range f.alive {
		select {
		case <-p.gone:
			return fmt.Errorf("%v ended by itself (%s): %s", p, p.cmd.ProcessState, cmp.Or(p.logged.end(), "it logged nothing"))
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

// demoFD is the number of ExtraFiles' first file in the child.
const demoFD = 3

func (f *demoFleet) start() (*demoProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f.started++
	p := &demoProcess{number: f.started, running: make(map[string]bool), gone: make(chan struct{})}
	p.cmd = exec.Command(self, demoWorkerName, "--fd", strconv.Itoa(demoFD), "--client", f.redis.client, "--prefix", f.redis.prefix)
	// Not in a flag: every user can read the command line of a process.
	p.cmd.Env = append(withoutRedis(os.Environ()), urlVariables[0]+"="+f.redis.url)
	reports, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.ExtraFiles = []*os.File{theirs}
	var pipes pipes
	if p.logged, p.cmd.Stderr, err = pipes.listen(); err == nil {
		err = f.spawner.start(p.cmd)
	}
	_ = theirs.Close()
	pipes.handedOver()
	if err != nil {
		_ = reports.Close()
		return nil, err
	}
	go func() {
		defer close(p.gone)
		f.ledger.read(reports, p.running) // to the end: what was written before a SIGKILL is still in the pipe
		_ = reports.Close()
		_ = p.cmd.Wait()
	}()
	return p, nil
}

// kill kills a worker that has jobs running, none of which was interrupted before, and returns how many these
// were. A job whose worker crashes again and again is taken for the cause, and is then quarantined; that is
// not the promise shown here.
func (f *demoFleet) kill() (name string, running int) {
	i := slices.IndexFunc(f.alive, func(p *demoProcess) bool { return f.ledger.mayInterrupt(p.running) })
	if i < 0 {
		return "", 0
	}
	p := f.alive[i]
	killGroup(p.cmd.Process.Pid)
	<-p.gone
	_ = p.logged.end()
	f.alive = slices.Delete(f.alive, i, i+1) // its replacement comes last, so the next kill is another's turn
	return p.String(), f.ledger.interrupt(p.running)
}

// stop stops all workers as an operator does, and kills those that do not end.
func (f *demoFleet) stop() {
	for _, p := range f.alive {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	// Longer than a worker's shutdown timeout and what it may wait for Redis as well.
	patience := time.After(demoShutdown + 4*time.Second)
	for _, p := range f.alive {
		select {
		case <-p.gone:
		case <-patience:
			patience = time.After(0)
		}
		killGroup(p.cmd.Process.Pid)
		<-p.gone
		_ = p.logged.end()
	}
	f.alive = nil
}

func (f *demoFleet) close() {
	f.stop()
	f.spawner.close()
}
