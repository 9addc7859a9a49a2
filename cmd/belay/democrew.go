package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A crew is the demonstration's worker processes.
type crew struct {
	dir      string
	stage    *stage
	spawner  *spawner
	members  []*member // those that live
	everyone []*member // those that ever did
}

// A member is one worker process, from its start on.
type member struct {
	number int
	file   string // where it writes what it does
	said   string // the file that holds its standard error
	cmd    *exec.Cmd
	gone   chan struct{}
}

func newCrew(dir string, stage *stage) *crew {
	return &crew{dir: dir, stage: stage, spawner: newSpawner()}
}

// fill starts workers until there are so many. One that ended by itself is an error: the demonstration kills, nobody else.
func (c *crew) fill(workers int) error {
	for _, m := range c.members {
		select {
		case <-m.gone:
			return fmt.Errorf("worker %d ended by itself (%s): %s", m.number, m.cmd.ProcessState, m.lastWords())
		default:
		}
	}
	for len(c.members) < workers {
		m, err := c.start()
		if err != nil {
			return err
		}
		c.members, c.everyone = append(c.members, m), append(c.everyone, m)
	}
	return nil
}

func (c *crew) start() (*member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	m := &member{number: len(c.everyone) + 1, gone: make(chan struct{})}
	m.file = filepath.Join(c.dir, fmt.Sprintf("worker-%d.jobs", m.number))
	m.said = filepath.Join(c.dir, fmt.Sprintf("worker-%d.log", m.number))
	log, err := os.Create(m.said)
	if err != nil {
		return nil, fmt.Errorf("make a worker's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	m.cmd = exec.Command(self, demoWorkerName, "--file", m.file, "--client", c.stage.client, "--prefix", c.stage.prefix)
	// Not by a flag: everybody can read the command line of a process.
	m.cmd.Env = append(withoutRedis(os.Environ()), urlVariables[0]+"="+c.stage.url)
	m.cmd.Stderr = log
	if err := c.spawner.start(m.cmd); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	go func() {
		_ = m.cmd.Wait()
		close(m.gone)
	}()
	return m, nil
}

// kill kills the i-th worker by SIGKILL and returns when it is gone.
func (c *crew) kill(i int) {
	m := c.members[i]
	killGroup(m.cmd.Process.Pid)
	<-m.gone
	// The next kill is another's turn: what replaces this one stands last.
	c.members = slices.Delete(c.members, i, i+1)
}

// stop ends all workers as an operator does, and by SIGKILL those that do not end.
func (c *crew) stop() {
	for _, m := range c.members {
		_ = m.cmd.Process.Signal(syscall.SIGTERM)
	}
	// Longer than a worker's own timeout for its jobs and what it may wait for Redis besides.
	patience := time.After(demoShutdown + 4*time.Second)
	for _, m := range c.members {
		select {
		case <-m.gone:
		case <-patience:
			patience = time.After(0)
		}
		killGroup(m.cmd.Process.Pid)
		<-m.gone
	}
	c.members = nil
}

func (c *crew) close() {
	c.stop()
	c.spawner.close()
}

// lastWords is the end of what the worker logged.
func (m *member) lastWords() string {
	text, err := os.ReadFile(m.said)
	if err != nil || len(text) == 0 {
		return "it said nothing"
	}
	return strings.TrimSpace(lastText(text))
}

func (m *member) String() string {
	return "worker " + strconv.Itoa(m.number) + " (pid " + strconv.Itoa(m.cmd.Process.Pid) + ")"
}
