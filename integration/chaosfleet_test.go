package integration

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/internal/drivertest/slowlink"
)

// chaosWorker builds the program of a chaos run, once.
var chaosWorker = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(belayPath), "chaosworker")
	return path, goBuild(path, "./chaosworker")
})

// A slot is one process of a chaos run after the other: when it ends, the next is started, as a supervisor
// does. They reach Redis by a proxy of their own.
type slot struct {
	run   *chaos
	name  string
	words []string
	// operator is the URL of Redis for what an operator does, such as to cancel a job.
	operator string
	proxy    *faultproxy.Proxy
	// link is behind the proxy, and fast unless a fault makes it slow.
	link *slowlink.Link
	// acting is held by who does something to the slot.
	acting sync.Mutex
	// loop is the supervisor.
	loop sync.WaitGroup

	mu sync.Mutex
	// proc is the process that runs, nil between two; starts counts them.
	proc   *chaosProcess
	starts int
	// fault is what lasts now, beyond the process that it began with.
	fault *history.Event
	// ending says that no other is started; after is how long the next start is put off.
	ending bool
	after  time.Duration
}

// chaosProcess is one process of a slot. done is closed when it has been waited for.
type chaosProcess struct {
	name string
	pid  int
	done chan struct{}
}

// newSlot starts the first process of a role. Its name says which slot it is of, and the how manyth.
func (r *chaos) newSlot(role check.Role, name, client string, words ...string) *slot {
	r.t.Helper()
	link := slowlink.New(r.t, r.clock.server.Addr(), slowlink.Speed{})
	s := &slot{run: r, name: name, link: link, proxy: faultproxy.New(r.t, link.Addr())}
	by := r.site.by(s.proxy.URL() + shardsIn(r.shards))
	s.operator = by.urlOf(check.RoleOperator)
	s.words = append([]string{"--redis", by.urlOf(role), "--client", client, "--prefix", r.site.prefix, "--dir", r.dir}, words...)
	s.loop.Go(s.supervise)
	r.t.Cleanup(func() {
		s.end(syscall.SIGKILL)
		s.loop.Wait()
	})
	return s
}

func (s *slot) supervise() {
	for {
		p, wait := s.start()
		if p == nil {
			return
		}
		again := wait() != 0 || !s.run.pusher(s.name)
		s.mu.Lock()
		after := s.after
		s.after = 0
		s.mu.Unlock()
		if !again {
			return // one that has pushed all
		}
		time.Sleep(after)
	}
}

// start starts the next process; nil when there must be none. wait waits for its end and answers its exit
// status.
func (s *slot) start() (p *chaosProcess, wait func() int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return nil, nil
	}
	s.starts++
	p = &chaosProcess{name: s.name + "-" + strconv.Itoa(s.starts), done: make(chan struct{})}
	log, err := os.OpenFile(filepath.Join(s.run.dir, p.name+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		s.run.t.Errorf("chaos: %v", err)
		return nil, nil
	}
	defer func() { _ = log.Close() }()
	cmd := hiding(s.run.program, append([]string{"--proc", p.name}, s.words...)...)
	cmd.Env = append(cmd.Env, "BELAY_OPERATOR_URL="+s.operator)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.run.book.Append(history.Event{Kind: history.Launch, Proc: p.name})
	runtime.LockOSThread() // the parent-death signal is sent when the thread that forked ends
	if err := cmd.Start(); err != nil {
		s.run.t.Errorf("chaos: %v", err)
		return nil, nil
	}
	p.pid, s.proc = cmd.Process.Pid, p
	s.tell(history.Begin)
	return p, func() int {
		defer runtime.UnlockOSThread()
		_ = cmd.Wait()
		s.gone(cmd.ProcessState)
		return cmd.ProcessState.ExitCode()
	}
}

func (s *slot) gone(state *os.ProcessState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(history.End)
	s.run.book.Append(history.Event{Kind: history.Gone, Proc: s.proc.name, Text: state.String()})
	s.run.ends.Add(1)
	close(s.proc.done)
	s.proc = nil
}

// tell needs mu. It writes down that a fault of the slot begins, or ends, for the process that runs.
func (s *slot) tell(kind history.Kind) {
	if s.fault != nil && s.proc != nil {
		e := *s.fault
		e.Kind, e.Proc = kind, s.proc.name
		s.run.book.Append(e)
	}
}

// suffer writes down that a fault lasts while a function runs, for all processes of the slot meanwhile.
func (s *slot) suffer(a chaosplan.Act, during func()) {
	s.set(&history.Event{Fault: string(a.Fault), Text: a.Text})
	during()
	s.set(nil)
}

func (s *slot) set(fault *history.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fault == nil {
		s.tell(history.End)
	}
	s.fault = fault
	if fault != nil {
		s.tell(history.Begin)
	}
}

// running is the process that runs; nil between two.
func (s *slot) running() *chaosProcess {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// signal sends the process a signal and writes that down first. The next one is started so long after its end.
func (s *slot) signal(sig syscall.Signal, name string, after time.Duration) *chaosProcess {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return nil
	}
	s.after = after
	s.run.book.Append(history.Event{Kind: history.Signalled, Proc: s.proc.name, Fault: name})
	_ = syscall.Kill(s.proc.pid, sig)
	return s.proc
}

// end has the process be the last, and sends it a signal.
func (s *slot) end(sig syscall.Signal) {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	if s.running() != nil {
		s.signal(sig, map[syscall.Signal]string{syscall.SIGKILL: "KILL", syscall.SIGTERM: "TERM"}[sig], 0)
	}
}

// ended waits until the slot has no process and gets none any more.
func (s *slot) ended(within time.Duration) bool {
	gone := make(chan struct{})
	go func() {
		s.loop.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return true
	case <-time.After(within):
		return false
	}
}

// The supervisor of the run starts what has died, and what has pushed all it had to push is not started again.
func TestSlotStartsWhatHasDied(t *testing.T) {
	t.Parallel()
	r := newChaos(t, calm(t))
	s := r.newWorker(0)
	eventually(t, "the worker", func() bool { return s.running() != nil })
	first := s.signal(syscall.SIGKILL, "KILL", 0)
	<-first.done
	eventually(t, "the next one", func() bool { p := s.running(); return p != nil && p.name == "w0-2" })
	s.end(syscall.SIGTERM)
	require.True(t, s.ended(patience))
}
