package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A spawner starts child processes that die with this one. Linux sends a parent-death signal when the
// *thread* that forked ends, not the process; so one thread starts all children and does nothing else.
//
// The spawner also waits for them, whenever the kernel signals that a child has ended: exec.Cmd.Wait would
// block a thread for each, and at the limit on threads Go's runtime would crash the worker.
type spawner struct {
	starts chan func()
	ended  chan os.Signal
	// only reports that all children of this process are the spawner's, or orphans of its children: the first
	// process of a container must wait for orphans too.
	only bool

	mu       sync.Mutex // held while a child is started, so that the table is complete
	children map[int]chan<- syscall.WaitStatus
}

func newSpawner(only bool) *spawner {
	s := &spawner{
		starts: make(chan func()), ended: make(chan os.Signal, 1), only: only,
		children: make(map[int]chan<- syscall.WaitStatus),
	}
	signal.Notify(s.ended, syscall.SIGCHLD)
	go func() {
		for range s.ended {
			s.reap()
		}
	}()
	go func() {
		// Never unlocked: when this goroutine ends, its thread and its children end.
		runtime.LockOSThread()
		for start := range s.starts {
			start()
		}
	}()
	return s
}

// reap waits for all children that have ended, because one signal may be for several of them.
func (s *spawner) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.only {
		for s.reapOne(-1) {
		}
		return
	}
	for pid := range s.children {
		s.reapOne(pid)
	}
}

// reapOne waits for one child, or for any (-1), and reports whether one had ended.
func (s *spawner) reapOne(which int) bool {
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(which, &status, syscall.WNOHANG, nil)
	if err == syscall.EINTR {
		return s.reapOne(which)
	}
	if exit := s.children[pid]; exit != nil {
		exit <- status
		delete(s.children, pid)
	}
	return pid > 0
}

// ending describes the end of a child as package os does: "exit status 3" or "signal: killed"; empty for
// success.
func ending(status syscall.WaitStatus) string {
	switch {
	case status.Signaled():
		return "signal: " + status.Signal().String() + word(status.CoreDump(), " (core dumped)")
	case status.ExitStatus() != 0:
		return fmt.Sprintf("exit status %d", status.ExitStatus())
	}
	return ""
}

// start starts cmd in a process group of its own, so that its children can be ended with it, and so that a
// Ctrl-C in a terminal reaches only the worker. How it ends is sent to exit.
func (s *spawner) start(cmd *exec.Cmd) (exit <-chan syscall.WaitStatus, err error) {
	cmd.SysProcAttr = diesWithParent()
	cmd.SysProcAttr.Setpgid = true
	ends, done := make(chan syscall.WaitStatus, 1), make(chan error)
	s.starts <- func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		err := cmd.Start()
		if err == nil {
			s.children[cmd.Process.Pid] = ends
		}
		done <- err
	}
	return ends, <-done
}

// pipeGrace is how long a job waits for the last output of a program that has ended, if processes that it
// left behind hold the pipes. The output itself is in the pipes by then.
const pipeGrace = 200 * time.Millisecond

// finish closes the pipes of a child that the spawner has waited for, after it has read what is in them.
func finish(cmd *exec.Cmd, limit time.Duration) {
	_ = cmd.Process.Release()
	cmd.WaitDelay = limit
	_ = cmd.Wait() // only for its pipes: the process is gone
}

// close ends every child that still runs. No start may follow.
func (s *spawner) close() {
	close(s.starts)
	signal.Stop(s.ended)
	close(s.ended)
}

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
