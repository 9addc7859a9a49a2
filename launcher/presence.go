package launcher

import (
	"context"
	"sync"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

const (
	// maxPresenceRTT is how long the last heartbeats of a session may have taken at most when it subscribes.
	// The lease of a session with a subscription is short, and would end between heartbeats on a slow link.
	maxPresenceRTT = 250 * time.Millisecond
	// presenceRest is how long a process does without its subscription after Redis has refused it a connection:
	// so long that its other connections come first. Without it recovery takes the time of the TTL.
	presenceRest = 15 * time.Second
	// steadyPresence is after how long a subscription that ends counts as the first that does.
	steadyPresence = 10 * time.Second
)

// A presence is the subscription of the process' session to a channel of its own. Redis drops it as soon as the
// process is killed, and the watcher takes its absence, together with missing heartbeats, as evidence. So
// heartbeats never depend on it, and when it ends in a process that lives, a heartbeat follows at once. The
// same connection receives that the poller has left; without it a process that stands by notices a moment
// later.
type presence struct {
	may trigger // a heartbeat has shown that the session may subscribe

	mu        sync.Mutex
	end       context.CancelFunc // ends the subscription; nil without one
	since     time.Duration      // since when it is confirmed, since boot; 0 while it is not
	rtt       time.Duration      // of the last heartbeat
	restUntil time.Time
}

// handleHeartbeat begins or renews the subscription of a session whose heartbeat was confirmed, where that is
// called for.
func (p *presence) handleHeartbeat(reply fetch.HeartbeatReply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	slow := max(p.rtt, reply.RTT) >= maxPresenceRTT
	p.rtt = reply.RTT
	switch {
	case p.end == nil && !slow && reply.Subscribed >= 0 && !time.Now().Before(p.restUntil):
		p.may.pull()
	case p.since != 0 && p.since < reply.SentAt && reply.Subscribed == 0:
		p.end() // it is on another server, or only this end of the connection stands
	}
}

// Since returns since when the session has its subscription, since boot; 0 if it has none.
func (p *presence) Since() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since
}

// Stop ends the subscription, and allows no other one before rest has passed.
func (p *presence) Stop(rest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if rest > 0 {
		p.restUntil = time.Now().Add(rest)
	}
	if p.end != nil {
		p.end()
	}
}

// hold subscribes to these channels until ctx or the subscription ends.
func (p *presence) hold(ctx context.Context, client driver.Client, channels []string, received func(string)) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	p.mu.Lock()
	p.end, p.since = end, 0
	p.mu.Unlock()
	unconfirmed := time.AfterFunc(driver.CallTimeout, end)
	defer unconfirmed.Stop()
	err := client.Listen(ctx, channels, 0, func() {
		unconfirmed.Stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.since = lua.SinceBoot()
	}, received)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end, p.since = nil, 0
	return err
}

// holdPresence keeps the subscription of the process' session, until ctx ends.
func (s *shard) holdPresence(ctx context.Context) {
	var backoff link.Backoff
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.presence.may:
		}
		session := s.session.Load()
		if session.Over() {
			continue
		}
		session.Watch()
		began := time.Now()
		err := s.presence.hold(ctx, s.Client, []string{s.keys.Presence(session.Identity), s.keys.PollerLeft()}, func(string) { s.pollerLeft() })
		if ctx.Err() != nil {
			return
		}
		s.beatNow.pull()
		if time.Since(began) >= steadyPresence {
			backoff.Reset()
		}
		rest := backoff.Next()
		if driver.TooManyClients(err) || driver.Denial(err) != "" {
			rest = presenceRest
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}

// watchPresence is the pass of the duty that finds out by their absence that processes have died.
func (s *shard) watchPresence(ctx context.Context) (time.Duration, error) {
	return s.janitor.Watch(ctx, s.identity(), s.presence.Since())
}
