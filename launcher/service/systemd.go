package service

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/launcher"
)

// A notifier notifies systemd, as sd_notify(3) does: lines in a datagram to a socket.
type notifier struct {
	socket   string        // empty without systemd
	watchdog time.Duration // within which systemd expects a ping; 0 for never
}

// newNotifier reads systemd's variables and removes them from the environment, as sd_notify can.
func newNotifier(lookup func(string) (string, bool), unset func(string) error) notifier {
	var n notifier
	n.socket, _ = lookup("NOTIFY_SOCKET")
	within, _ := lookup("WATCHDOG_USEC")
	pid, forOne := lookup("WATCHDOG_PID")
	if micros, err := strconv.ParseInt(within, 10, 64); err == nil && (!forOne || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(max(micros, 0)) * time.Microsecond
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = unset(name)
	}
	return n
}

// notifyTimeout limits the wait for systemd.
const notifyTimeout = 500 * time.Millisecond

// send sends lines such as READY=1.
func (n notifier) send(lines ...string) error {
	// A leading @ means an abstract socket, to Go as to systemd.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetWriteDeadline(time.Now().Add(notifyTimeout))
	if _, err := conn.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

const (
	// beforeReady is how often the worker is checked until it is ready, and statusEvery how often STATUS is
	// sent after that.
	beforeReady = 200 * time.Millisecond
	statusEvery = 5 * time.Second
	// moreStart is the additional start time that is requested from systemd while Redis does not answer: a
	// worker that waits for Redis has not failed.
	moreStart = 30 * time.Second
)

// notifySystemd reports the state of the worker to systemd until end is called. It must be called before the
// worker's Run.
func (p Process) notifySystemd(n notifier) (end func()) {
	if n.socket == "" {
		return func() {}
	}
	send := func(lines ...string) {
		if err := n.send(lines...); err != nil {
			p.Log.Warn("systemd cannot be notified", "error", err)
		}
	}
	p.Worker.OnStop(func() { send("STOPPING=1", "STATUS=stopping") })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := report{worker: p.Worker, notifier: n}
		for ctx.Err() == nil {
			began := time.Now()
			if lines := r.lines(ctx); len(lines) > 0 {
				send(lines...)
			}
			select {
			case <-ctx.Done():
			case <-time.After(r.rest() - time.Since(began)):
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// A report is what was reported to systemd so far.
type report struct {
	worker   *launcher.Launcher
	notifier notifier
	ready    bool
	askedAt  time.Time // when systemd was last asked for more time to start
	status   string
}

// lines returns the lines that were not reported yet.
func (r *report) lines(ctx context.Context) []string {
	var lines []string
	found := r.worker.Ready(ctx)
	switch waits := !found.Registered(); {
	case !r.ready && !waits:
		r.ready = true
		lines = append(lines, "READY=1")
	case !r.ready && time.Since(r.askedAt) > moreStart/3:
		r.askedAt = time.Now()
		lines = append(lines, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", moreStart.Microseconds()))
	}
	if status := r.describe(found); status != r.status {
		r.status = status
		lines = append(lines, "STATUS="+status)
	}
	if r.notifier.watchdog > 0 && r.worker.Alive(ctx).OK {
		lines = append(lines, "WATCHDOG=1")
	}
	return lines
}

func (r *report) describe(found launcher.Finding) string {
	status := fmt.Sprintf("%d of %d busy", r.worker.Busy(), r.worker.Concurrency())
	if !found.OK {
		status = strings.ReplaceAll(found.Reason, "_", " ") + ", " + status
	}
	return status
}

// rest returns the time until the next report. Pings come twice per watchdog time, so one may be late.
func (r *report) rest() time.Duration {
	rest := statusEvery
	if !r.ready {
		rest = beforeReady
	}
	if r.notifier.watchdog > 0 {
		rest = min(rest, r.notifier.watchdog/2)
	}
	return max(rest, time.Millisecond)
}
