package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// A crew is the demonstration's worker processes.
type crew struct {
	stage    *stage
	spawner  *spawner
	members  []*member // those that live
	everyone []*member // those that ever did
}

// A member is one worker process, from its start on.
type member struct {
	number int
	file   *os.File // what it writes of what it does
	said   *os.File // its standard error
	cmd    *exec.Cmd
	gone   chan struct{}
}

func newCrew(stage *stage) *crew { return &crew{stage: stage, spawner: newSpawner()} }

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
	if m.file, err = namelessFile(); err != nil {
		return nil, err
	}
	if m.said, err = namelessFile(); err != nil {
		return nil, err
	}
	m.cmd = exec.Command(self, demoWorkerName, "--fd", strconv.Itoa(demoFD), "--client", c.stage.client, "--prefix", c.stage.prefix)
	// Not by a flag: everybody can read the command line of a process.
	m.cmd.Env = append(withoutRedis(os.Environ()), urlVariables[0]+"="+c.stage.url)
	m.cmd.Stderr, m.cmd.ExtraFiles = m.said, []*os.File{m.file}
	if err := c.spawner.start(m.cmd); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	go func() {
		_ = m.cmd.Wait()
		close(m.gone)
	}()
	return m, nil
}

// demoFD is what ExtraFiles' first file is in the child.
const demoFD = 3

// namelessFile makes a file that is appended to and that has no name any more: however the demonstration ends, be it by
// SIGKILL, no file is left behind. Its readers and writers hold it open.
func namelessFile() (*os.File, error) {
	path := filepath.Join(os.TempDir(), "belay-demo-"+rand.Text())
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make a file for a worker: %w", err)
	}
	if err := os.Remove(path); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("make a file for a worker: %w", err)
	}
	return file, nil
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
	for _, m := range c.everyone {
		_, _ = m.file.Close(), m.said.Close()
	}
}

// lastWords is the end of what the worker logged.
func (m *member) lastWords() string {
	text, err := io.ReadAll(io.NewSectionReader(m.said, 0, math.MaxInt64))
	if err != nil || len(text) == 0 {
		return "it said nothing"
	}
	return lastText(text)
}

func (m *member) String() string {
	return "worker " + strconv.Itoa(m.number) + " (pid " + strconv.Itoa(m.cmd.Process.Pid) + ")"
}
