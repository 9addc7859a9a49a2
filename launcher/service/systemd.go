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

const (
	// notifyTimeout limits the wait for systemd.
	notifyTimeout = 500 * time.Millisecond
	// beforeReady is how often the worker is checked until it is ready, and statusEvery how often STATUS is
	// sent after that.
	beforeReady = 200 * time.Millisecond
	statusEvery = 5 * time.Second
	// moreStart is the additional start time that is requested from systemd while Redis does not answer: a
	// worker that waits for Redis has not failed.
	moreStart = 30 * time.Second
)

// notifySystemd reports the state of the worker to systemd, as sd_notify(3) does, until end is called. It
// does nothing without systemd. Call it before the worker's Run. It removes systemd's variables from the
// environment: programs that this one starts are not the service.
func (p Process) notifySystemd() (end func()) {
	socket, watchdog := os.Getenv("NOTIFY_SOCKET"), time.Duration(0)
	pid, forOne := os.LookupEnv("WATCHDOG_PID")
	micros, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err == nil && (!forOne || pid == strconv.Itoa(os.Getpid())) {
		watchdog = time.Duration(max(micros, 0)) * time.Microsecond
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name)
	}
	if socket == "" {
		return func() {}
	}
	send := func(lines ...string) {
		if err := notify(socket, lines); err != nil {
			p.Log.Warn("systemd cannot be notified", "error", err)
		}
	}
	p.Worker.OnStop(func() { send("STOPPING=1", "STATUS=stopping") })
	return launcher.Beside(context.Background(), func(ctx context.Context) { p.report(ctx, watchdog, send) })
}

// notify sends lines such as READY=1 in one datagram.
func notify(socket string, lines []string) error {
	conn, err := net.Dial("unixgram", socket) // a leading @ means an abstract socket, to Go as to systemd
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetWriteDeadline(time.Now().Add(notifyTimeout))
	_, err = conn.Write([]byte(strings.Join(lines, "\n")))
	return err
}

// report sends what has changed, and pings of a living worker, until ctx ends. A ping must reach systemd within
// the watchdog time, 0 for never.
func (p Process) report(ctx context.Context, watchdog time.Duration, send func(lines ...string)) {
	ready, extendedAt, status := false, time.Time{}, ""
	for ctx.Err() == nil {
		var lines []string
		began, rest := time.Now(), statusEvery
		found := p.Worker.Ready(ctx)
		switch {
		case ready:
		case found.Registered():
			ready, lines = true, append(lines, "READY=1")
		default:
			rest = beforeReady
			if began.Sub(extendedAt) > moreStart/3 {
				extendedAt = began
				lines = append(lines, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", moreStart.Microseconds()))
			}
		}
		if now := p.status(found); now != status {
			status, lines = now, append(lines, "STATUS="+now)
		}
		if watchdog > 0 {
			rest = min(rest, max(watchdog/2, time.Millisecond)) // twice per watchdog time, so one may be late
			if p.Worker.Alive(ctx).OK {
				lines = append(lines, "WATCHDOG=1")
			}
		}
		if len(lines) > 0 {
			send(lines...)
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest - time.Since(began)):
		}
	}
}

func (p Process) status(found launcher.Finding) string {
	status := fmt.Sprintf("%d of %d busy", p.Worker.Busy(), p.Worker.Concurrency())
	if !found.OK {
		status = strings.ReplaceAll(found.Reason, "_", " ") + ", " + status
	}
	return status
}
