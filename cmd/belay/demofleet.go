package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A demoFleet is the demonstration's worker processes and what they have reported. One goroutine owns it; a
// goroutine for each process sends it what the process reports, as functions to call.
//
// A job is done when its handler reported the end, whatever Redis holds.
type demoFleet struct {
	spawner *spawner
	events  chan func()
	alive   []*demoProcess
	started int

	report      report
	starts      map[string]int // by jid
	done        map[string]bool
	interrupted map[string]bool // jobs that were running in a killed worker
	killed      []*demoProcess  // those whose jobs have not all run again
}

// A demoProcess is one worker process.
type demoProcess struct {
	number      int
	pid         int
	running     map[string]bool // the jobs, by jid; of a killed one those that have not run again
	logged      tail            // the end of its log; to be read after its end
	ended       bool            // and all its reports were read
	how         string          // how it ended
	killedAt    time.Time
	interrupted int // how many jobs it was running when it was killed
}

func (p *demoProcess) String() string {
	return fmt.Sprintf("worker %d (pid %d)", p.number, p.pid)
}

const (
	lineStart = "start "
	lineEnd   = "end "
)

func newDemoFleet() *demoFleet {
	return &demoFleet{
		spawner: newSpawner(false), events: make(chan func()),
		starts: make(map[string]int), done: make(map[string]bool), interrupted: make(map[string]bool),
	}
}

// fill starts workers up to a number. It is an error if one has ended by itself.
func (f *demoFleet) fill(workers int, redis *demoRedis) error {
	for _, p := range f.alive {
		if p.ended {
			return fmt.Errorf("%v ended by itself (%s): %s", p, cmp.Or(p.how, "exit status 0"), cmp.Or(p.logged.String(), "it logged nothing"))
		}
	}
	for len(f.alive) < workers {
		if err := f.start(redis); err != nil {
			return fmt.Errorf("start a worker: %w", err)
		}
	}
	return nil
}

func (f *demoFleet) start(redis *demoRedis) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	f.started++
	p := &demoProcess{number: f.started, running: make(map[string]bool)}
	cmd := exec.Command(self, demoWorkerName, "--client", redis.at.client, "--prefix", redis.at.prefix)
	// Not in a flag: every user can read the command line of a process.
	cmd.Env = append(withoutRedis(os.Environ()), urlVariables[0]+"="+redis.at.url)
	reports, output, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = output, &p.logged
	exit, err := f.spawner.start(cmd)
	_ = output.Close()
	if err != nil {
		_ = reports.Close()
		return err
	}
	p.pid = cmd.Process.Pid
	f.alive = append(f.alive, p)
	go func() {
		// To the end: what was written before a SIGKILL is still in the pipe.
		for scanner := bufio.NewScanner(reports); scanner.Scan(); {
			line := scanner.Text()
			f.events <- func() { f.note(p, line) }
		}
		_ = reports.Close()
		how := ending(<-exit)
		finish(cmd, demoTimeout)
		f.events <- func() { p.ended, p.how = true, how }
	}()
	return nil
}

// listen handles events until ctx ends, or until p has ended if it is not nil.
func (f *demoFleet) listen(ctx context.Context, p *demoProcess) {
	for ctx.Err() == nil && (p == nil || !p.ended) {
		select {
		case event := <-f.events:
			event()
		case <-ctx.Done():
		}
	}
}

// note counts what a line reports.
func (f *demoFleet) note(p *demoProcess, line string) {
	r := &f.report
	if jid, ok := strings.CutPrefix(line, lineStart); ok {
		if f.starts[jid]++; f.starts[jid] > 1 {
			r.Reruns++
		}
		for _, killed := range f.killed {
			delete(killed.running, jid)
		}
		p.running[jid] = true
	} else if jid, ok := strings.CutPrefix(line, lineEnd); ok {
		f.done[jid] = true
		r.Done = len(f.done)
		delete(p.running, jid)
	}
}

// kill kills a worker that has running jobs, none of which was interrupted before, and returns how many were
// running at its end. A job whose worker crashes repeatedly would be quarantined, which is not what the
// demonstration shows.
func (f *demoFleet) kill() (p *demoProcess, running int) {
	i := slices.IndexFunc(f.alive, f.mayKill)
	if i < 0 {
		return nil, 0
	}
	p = f.alive[i]
	killGroup(p.pid)
	f.listen(context.Background(), p)
	f.alive = slices.Delete(f.alive, i, i+1) // the next kill hits another worker, as new ones come last
	return p, f.interrupt(p)
}

// recovered returns the killed workers whose jobs have all run again since the last call.
func (f *demoFleet) recovered() (workers []*demoProcess) {
	f.killed = slices.DeleteFunc(f.killed, func(p *demoProcess) bool {
		if len(p.running) == 0 {
			workers = append(workers, p)
		}
		return len(p.running) == 0
	})
	return workers
}

func (f *demoFleet) mayKill(p *demoProcess) bool {
	for jid := range p.running {
		if f.interrupted[jid] {
			return false
		}
	}
	return len(p.running) > 0
}

// interrupt counts a killed worker, unless its last job had ended.
func (f *demoFleet) interrupt(p *demoProcess) (running int) {
	for jid := range p.running {
		f.interrupted[jid] = true
	}
	f.report.Interrupted = len(f.interrupted)
	if p.interrupted, p.killedAt = len(p.running), time.Now(); p.interrupted > 0 {
		f.report.Kills++
		f.killed = append(f.killed, p)
	}
	return p.interrupted
}

// stop stops all workers as an operator does, and kills those that do not end.
func (f *demoFleet) stop() {
	for _, p := range f.alive {
		_ = syscall.Kill(p.pid, syscall.SIGTERM)
	}
	// Longer than a worker's shutdown timeout and its wait for Redis together.
	limited, cancel := context.WithTimeout(context.Background(), demoShutdown+4*time.Second)
	defer cancel()
	for _, p := range f.alive {
		f.listen(limited, p)
		killGroup(p.pid)
		f.listen(context.Background(), p)
	}
	f.alive = nil
}
