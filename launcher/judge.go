package launcher

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A Finding is the result of a health check of a worker.
type Finding struct {
	OK bool `json:"ok"`
	// Reason is a word for programs, empty if nothing is wrong. Detail is for people.
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// The reasons why a probe fails. They are a contract, and do not change.
const (
	reasonNotRunning    = "not_running"
	reasonNotRegistered = "not_registered"
	reasonStopping      = "stopping"
	reasonQuiet         = "quiet"
	reasonRedisAway     = "redis_away"
	reasonAccessDenied  = "access_denied"
	reasonNoLease       = "no_lease"
	reasonStandingStill = "standing_still"
	reasonNoHeartbeat   = "no_heartbeat"
)

const (
	// redisSoon is the maximum time that a probe waits for Redis. Kubernetes' default timeout of a probe is a
	// second.
	redisSoon = 500 * time.Millisecond
	// heartGrace is how long, besides its TTL, heartbeats may fail although Redis replies. After an outage
	// the next heartbeat follows up to two seconds later.
	heartGrace = 10 * time.Second
	// answeredLately is how recent a reply on another connection must be to show that Redis is reachable
	// although heartbeats have no reply: an idle wait has one every four seconds.
	answeredLately = 10 * time.Second
	// silentTTLs is how many TTLs longer heartbeats may have no reply if the probe's own call has no reply
	// either. A server without free connections behaves like that too, and a new process would get no
	// connection either.
	silentTTLs = 5
)

// Registered reports whether the checked worker runs and has reached Redis.
func (f Finding) Registered() bool {
	return f.Reason != reasonNotRunning && f.Reason != reasonNotRegistered
}

// Ready reports whether the worker takes jobs, with shards from any of them; then the detail says from which it
// takes none. It checks the worker's own state first, and then whether the
// worker is alive in Redis, because only living workers get jobs. It waits for Redis half a second at most.
func (l *Launcher) Ready(ctx context.Context) Finding {
	if found := l.intends(); !found.OK {
		return found
	}
	var missing *Finding // the first shard in which it takes none, with a word about each
	ready := false
	for _, found := range l.judge(func(s *shard) Finding { return s.ready(ctx) }) {
		switch {
		case found.OK:
			ready = true
		case missing == nil:
			missing = &found
		default:
			missing.Detail += "; " + found.Detail
		}
	}
	if missing == nil {
		return Finding{OK: true}
	}
	missing.OK = ready
	return *missing
}

// judge asks all shards at once. With several of them each detail begins with the shard's name.
func (l *Launcher) judge(ask func(*shard) Finding) []Finding {
	findings := make([]Finding, len(l.shards))
	var asking sync.WaitGroup
	for i, s := range l.shards {
		asking.Go(func() {
			findings[i] = ask(s)
			if s.Name != "" && findings[i].Reason != "" {
				findings[i].Detail = s.before() + cmp.Or(findings[i].Detail, findings[i].Reason)
			}
		})
	}
	asking.Wait()
	return findings
}

// ready reports whether the process takes jobs from the shard.
func (s *shard) ready(ctx context.Context) Finding {
	if s.identity() == "" {
		return s.unregistered()
	}
	lapsed, err := s.lapsed(ctx)
	if lapsed {
		return Finding{Reason: reasonNoLease, Detail: "redis does not count " + s.identity() + " among the living"}
	}
	return reached(err)
}

// Alive reports whether the worker is alive. A worker that is not must be restarted: its Run has returned,
// its loop stands still, or its heartbeats fail although Redis replies to the probe or to other connections
// of the worker. Alive waits for Redis for half a second at most.
func (l *Launcher) Alive(ctx context.Context) Finding {
	if found := l.intends(); !found.Registered() {
		found.OK = l.phase.Load() != phaseEnded
		return found
	}
	if !l.turns(ctx) {
		return Finding{Reason: reasonStandingStill, Detail: "the loop of " + l.Identity() + " does not take its orders"}
	}
	alive := Finding{OK: true}
	for _, found := range l.judge(func(s *shard) Finding { return s.alive(ctx) }) {
		if !found.OK {
			return found
		}
		if alive.Reason == "" {
			alive = found
		}
	}
	return alive
}

// alive reports whether the process is alive in the shard. One where it has no session yet is no reason to
// restart it.
func (s *shard) alive(ctx context.Context) Finding {
	if s.identity() == "" {
		found := s.unregistered()
		found.OK = true
		return found
	}
	l := s.launcher
	lapsed, err := s.lapsed(ctx)
	grace := l.grace + s.cfg.TTL
	if err != nil && driver.Denial(err) == "" && s.unanswered() {
		lapsed, grace = true, grace+silentTTLs*s.cfg.TTL
	}
	if !lapsed {
		s.lapsedAt.Store(0)
		found := reached(err)
		found.OK = true
		return found
	}
	now := time.Since(l.startedAt)
	s.lapsedAt.CompareAndSwap(0, int64(now))
	if lasted := now - time.Duration(s.lapsedAt.Load()); lasted > grace {
		detail := fmt.Sprintf("redis answers, but has had no heartbeat of %s for %v", s.identity(), lasted.Round(time.Second))
		return Finding{Reason: reasonNoHeartbeat, Detail: detail}
	}
	return Finding{OK: true, Reason: reasonNoLease}
}

// unanswered reports whether heartbeats have had no reply for a TTL although other connections have. In an
// outage no connection has replies.
func (s *shard) unanswered() bool {
	return !s.launcher.stopping.Load() && s.silence() > s.cfg.TTL && s.report.AnsweredWithin(answeredLately)
}

// reached returns the finding about Redis after a call with this error: OK without one.
func reached(err error) Finding {
	if err == nil {
		return Finding{OK: true}
	}
	found := Finding{Reason: reasonRedisAway, Detail: withoutAddresses(err.Error())}
	if advice := driver.Denial(err); advice != "" {
		found.Reason = reasonAccessDenied
		if !strings.Contains(found.Detail, advice) {
			found.Detail += ": " + advice
		}
	}
	return found
}

// intends reports whether the process runs and takes jobs according to its own state, and if not, why.
func (l *Launcher) intends() Finding {
	switch phase := l.phase.Load(); {
	case phase == phaseNew:
		return Finding{Reason: reasonNotRunning, Detail: "Run has not been called"}
	case phase == phaseEnded:
		return Finding{Reason: reasonNotRunning, Detail: "its Run has returned"}
	case l.stopping.Load():
		return Finding{Reason: reasonStopping}
	case l.quiet.Load():
		return Finding{Reason: reasonQuiet}
	case l.Identity() == "":
		findings := l.judge((*shard).unregistered)
		for _, found := range findings {
			if found.Reason == reasonAccessDenied {
				return found
			}
		}
		return findings[0]
	}
	return Finding{OK: true}
}

// unregistered returns why the process has no session in the shard yet.
func (s *shard) unregistered() Finding {
	if err := s.report.Denied(); err != nil {
		return reached(err)
	}
	return Finding{Reason: reasonNotRegistered, Detail: "redis has not answered yet"}
}

// turns reports whether the loop still runs its turns.
func (l *Launcher) turns(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, redisSoon)
	defer cancel()
	return l.loop.Turns(ctx)
}

// lapsed reads from Redis whether the process counts as lapsed, by the rule of the script take. A process that
// stops may be deregistered already. While Redis denies the process access there is nothing to read: a new
// process would have the same password, and running jobs would be interrupted.
func (s *shard) lapsed(ctx context.Context) (bool, error) {
	if err := s.report.Denied(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, redisSoon)
	defer cancel()
	replies := s.Client.Do(ctx, lua.AskTime, driver.Command("ZSCORE", s.keys.Alive(), s.identity()))
	for _, reply := range replies {
		if reply.Err != nil {
			return false, fmt.Errorf("ask redis: %w", reply.Err)
		}
	}
	now, _ := lua.TimeOf(replies[0]) // without one nothing counts as lapsed
	text, _ := replies[1].Value.(string)
	expires, err := strconv.ParseFloat(text, 64)
	return !s.launcher.stopping.Load() && (err != nil || expires <= float64(now.UnixMilli())), nil
}

// addresses match the sockets, hosts and name servers in network errors, with what remains of each. The
// more specific patterns come first.
var addresses = []struct {
	at   *regexp.Regexp
	left string
}{
	{regexp.MustCompile(`\b(dial|read|write) (tcp\d?|udp\d?|unix\w*) .+?: `), "$1 $2: "},
	{regexp.MustCompile(`\blookup \S+( on \S+)?: `), "lookup: "},
	{regexp.MustCompile(`(\[[0-9a-fA-F:.%]+\]|[\w.%-]+):\d{1,5}\b`), "(address)"},
	{regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}\b`), "(address)"},
}

// withoutAddresses returns the text of an error without addresses, because anyone who reaches the health
// endpoint can read it. The log has the full text.
func withoutAddresses(text string) string {
	for _, pattern := range addresses {
		text = pattern.at.ReplaceAllString(text, pattern.left)
	}
	return text
}
