package main

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A spawner starts child processes that die with this one. Linux sends a parent-death signal when the
// *thread* that forked ends, not the process; so one thread starts all children and does nothing else.
type spawner struct {
	starts chan start

	mu       sync.Mutex  // held while a child is started, so that the table is complete
	children map[int]int // by pid: how many children exec waits for; briefly two when a pid is reused
}

type start struct {
	cmd  *exec.Cmd
	done chan<- error
}

func newSpawner() *spawner {
	s := &spawner{starts: make(chan start), children: make(map[int]int)}
	go func() {
		// Never unlocked: when this goroutine ends, its thread and its children end.
		runtime.LockOSThread()
		for request := range s.starts {
			request.done <- s.startChild(request.cmd)
		}
	}()
	return s
}

func (s *spawner) startChild(cmd *exec.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := cmd.Start()
	if err == nil {
		s.children[cmd.Process.Pid]++
	}
	return err
}

// wait waits for a child. After that its pid may belong to another process.
func (s *spawner) wait(cmd *exec.Cmd) error {
	awaitExit(cmd)
	err := cmd.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.children[cmd.Process.Pid]--; s.children[cmd.Process.Pid] == 0 {
		delete(s.children, cmd.Process.Pid)
	}
	return err
}

// start starts cmd in a process group of its own, so that its children can be ended with it, and so that a
// Ctrl-C in a terminal reaches only the worker.
func (s *spawner) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = diesWithParent()
	cmd.SysProcAttr.Setpgid = true
	done := make(chan error, 1)
	s.starts <- start{cmd, done}
	return <-done
}

// close ends every child that still runs. No start may follow.
func (s *spawner) close() { close(s.starts) }

const (
	// grace is how long a cancelled program has between SIGTERM and SIGKILL. It is shorter than the second
	// that the launcher gives cancelled handlers before it requeues their jobs, so that no program still
	// works on a job that another worker may have.
	grace = 600 * time.Millisecond
	// groupLook is how often endGroup checks whether the group has ended: there is no event for it.
	groupLook = 10 * time.Millisecond
)

// endGroup ends all processes of the group that child leads: SIGTERM, and SIGKILL after grace. A child that
// has ended but was not waited for still counts as running.
func endGroup(child int) {
	_ = syscall.Kill(-child, syscall.SIGTERM)
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(groupLook) {
		if syscall.Kill(-child, 0) == syscall.ESRCH {
			return
		}
	}
	killGroup(child)
}

func killGroup(child int) { _ = syscall.Kill(-child, syscall.SIGKILL) }
