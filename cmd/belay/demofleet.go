package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A demoFleet is the demonstration's worker processes and what they have reported. One goroutine owns it; a
// goroutine for each process sends it the lines that the process writes.
//
// A job is done when its handler reported the end, whatever Redis holds.
type demoFleet struct {
	spawner *spawner
	lines   chan demoLine
	alive   []*demoProcess
	started int

	report      report
	starts      map[string]int // by jid
	done        map[string]bool
	interrupted map[string]bool // jobs that were running in a killed worker
	kills       []*demoKill     // those whose jobs have not all run again
}

// A demoKill is a worker that was killed, and the jobs that it was running and that have not run again.
type demoKill struct {
	worker  *demoProcess
	at      time.Time
	jobs    int
	waiting map[string]bool // by jid
}

// A demoProcess is one worker process.
type demoProcess struct {
	number  int
	pid     int
	running map[string]bool // the jobs, by jid
	logged  tail            // the end of its log; to be read after its end
	ended   bool            // and all its lines were read
	how     string          // how it ended
}

func (p *demoProcess) String() string {
	return fmt.Sprintf("worker %d (pid %d)", p.number, p.pid)
}

// A demoLine is a line that a worker wrote, or its end.
type demoLine struct {
	from *demoProcess
	text string
	end  bool
	how  string
}

const (
	lineStart = "start "
	lineEnd   = "end "
)

func newDemoFleet() *demoFleet {
	return &demoFleet{
		spawner: newSpawner(false), lines: make(chan demoLine),
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
	cmd := exec.Command(self, demoWorkerName, "--client", redis.client, "--prefix", redis.prefix)
	// Not in a flag: every user can read the command line of a process.
	cmd.Env = append(withoutRedis(os.Environ()), urlVariables[0]+"="+redis.url)
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
			f.lines <- demoLine{from: p, text: scanner.Text()}
		}
		_ = reports.Close()
		how := ending(<-exit)
		finish(cmd, demoTimeout)
		f.lines <- demoLine{from: p, end: true, how: how}
	}()
	return nil
}

// listen takes a line, and more for demoTick, or until ctx ends.
func (f *demoFleet) listen(ctx context.Context) {
	for tick := time.After(demoTick); ; {
		select {
		case line := <-f.lines:
			f.note(line)
		case <-tick:
			return
		case <-ctx.Done():
			return
		}
	}
}

// note counts what a line reports.
func (f *demoFleet) note(line demoLine) {
	p, r := line.from, &f.report
	if jid, ok := strings.CutPrefix(line.text, lineStart); ok {
		if f.starts[jid]++; f.starts[jid] > 1 {
			r.Reruns++
		}
		p.running[jid] = true
		for _, kill := range f.kills {
			delete(kill.waiting, jid)
		}
	} else if jid, ok := strings.CutPrefix(line.text, lineEnd); ok {
		f.done[jid] = true
		r.Done = len(f.done)
		delete(p.running, jid)
	}
	p.ended, p.how = line.end, line.how
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
	f.awaitEnd(context.Background(), p)
	f.alive = slices.Delete(f.alive, i, i+1) // the next kill hits another worker, as new ones come last
	return p, f.interrupt(p)
}

// recovered returns the kills whose jobs have all run again since the last call.
func (f *demoFleet) recovered() (kills []*demoKill) {
	f.kills = slices.DeleteFunc(f.kills, func(kill *demoKill) bool {
		if len(kill.waiting) > 0 {
			return false
		}
		kills = append(kills, kill)
		return true
	})
	return kills
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
	if len(p.running) > 0 {
		f.report.Kills++
		f.kills = append(f.kills, &demoKill{worker: p, at: time.Now(), jobs: len(p.running), waiting: maps.Clone(p.running)})
	}
	return len(p.running)
}

// awaitEnd takes lines until a worker has ended, or ctx has.
func (f *demoFleet) awaitEnd(ctx context.Context, p *demoProcess) {
	for !p.ended && ctx.Err() == nil {
		select {
		case line := <-f.lines:
			f.note(line)
		case <-ctx.Done():
		}
	}
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
		f.awaitEnd(limited, p)
		killGroup(p.pid)
		f.awaitEnd(context.Background(), p)
	}
	f.alive = nil
}
