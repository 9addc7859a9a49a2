package launcher

import (
	"context"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/link"
)

// maxListenRest is the longest pause before another attempt to listen. Without it a process that stands by
// notices a moment later that there is no poller.
const maxListenRest = time.Minute

// minListenRest is the first pause. It is long because nothing waits for this: during an outage the
// heartbeat notices that Redis is back, and each attempt costs a connection.
const minListenRest = 5 * time.Second

// listenForPoller asks for the lease of the poller as soon as its holder gives it up, until ctx ends.
func (l *Launcher) listenForPoller(ctx context.Context) {
	backoff := link.Backoff{First: minListenRest, Max: maxListenRest}
	for ctx.Err() == nil {
		began := time.Now()
		listening, end := context.WithCancel(ctx)
		l.endListen.Store(&end)
		err := l.cfg.Client.Listen(listening, l.keys.PollerLeft(), driver.ListenProbe, func() {}, func(string) {
			if time.Since(l.startedAt) >= l.cfg.PollWait {
				l.poll()
			}
		})
		end()
		if time.Since(began) > maxListenRest {
			backoff.Reset()
		}
		rest := backoff.Next()
		if driver.Denial(err) != "" {
			rest = maxListenRest // an operator forbids it, and nothing depends on it
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}

// poll triggers a pass of the poller's duty.
func (l *Launcher) poll() { trigger(l.pollNow) }
