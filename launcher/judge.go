package launcher

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A Finding is the answer to a question about a worker's health.
type Finding struct {
	OK bool `json:"ok"`
	// Reason is a word for programs, empty when all is well; Detail is for people.
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Why a worker is not well. Readers know these words: they do not change.
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
	// redisSoon is how long a question waits for Redis: Kubernetes gives a probe a second by default.
	redisSoon = 500 * time.Millisecond
	// heartGrace is for how long, besides its TTL, a worker may be dead to a Redis that answers: after an outage the heart
	// needs up to two seconds to find that out.
	heartGrace = 10 * time.Second
	// answeredLately is how recent a reply on another connection must be to show that Redis is reachable
	// although heartbeats have no reply: an idle wait has one every four seconds.
	answeredLately = 10 * time.Second
	// silentTTLs is how many TTLs longer heartbeats may stay unanswered if the probe's own ping has no answer
	// either. A server without free connections behaves like that too, and a new process would get no
	// connection either.
	silentTTLs = 5
)

// Registered says whether it is the finding of a worker that runs and has reached Redis.
func (f Finding) Registered() bool {
	return f.Reason != reasonNotRunning && f.Reason != reasonNotRegistered
}

// Ready says whether the worker takes jobs: what it knows itself first, then what Redis says, in whose eyes it must live to
// be given any. It waits for Redis half a second at most.
func (g *Group) Ready(ctx context.Context) Finding {
	if found := g.intends(); !found.OK {
		return found
	}
	if err := g.denied(); err != nil {
		return silent(err)
	}
	lapsed, err := g.lapsed(ctx)
	switch {
	case err != nil:
		return silent(err)
	case lapsed != "":
		return Finding{Reason: reasonNoLease, Detail: "redis does not count " + lapsed + " among the living"}
	}
	return Finding{OK: true}
}

// Alive says whether the worker is worth keeping. Only a Run that has returned, a manager that stands still, and a heart that
// has stopped although Redis answers, be it this question or other connections of the worker, say no. It waits for Redis half a second at most.
func (g *Group) Alive(ctx context.Context) Finding {
	if g.phase.Load() == phaseEnded {
		return Finding{Reason: reasonNotRunning, Detail: "its Run has returned"}
	}
	if found := g.intends(); !found.Registered() {
		return Finding{OK: true, Reason: found.Reason, Detail: found.Detail}
	}
	if stuck := g.standing(ctx); stuck != "" {
		return Finding{Reason: reasonStandingStill, Detail: "the manager of " + stuck + " does not come to what it is told"}
	}
	lapsed, err := g.lapsed(ctx)
	if denied := g.denied(); denied != nil {
		err = denied // a new process would have the same password, and running jobs would be interrupted
	}
	grace := heartGrace + g.ttl
	if err != nil && driver.Denial(err) == "" {
		if lapsed = g.unheard(); lapsed != "" {
			err, grace = nil, grace+silentTTLs*g.ttl
		}
	}
	if err != nil || lapsed == "" {
		g.lapsedSince.Store(0)
		if err != nil {
			found := silent(err)
			found.OK = true
			return found
		}
		return Finding{OK: true}
	}
	now := time.Since(g.bornAt)
	g.lapsedSince.CompareAndSwap(0, int64(now))
	if lasted := now - time.Duration(g.lapsedSince.Load()); lasted > grace {
		return Finding{Reason: reasonNoHeartbeat, Detail: fmt.Sprintf("redis answers, and has not heard from %s for %v", lapsed, lasted.Round(time.Second))}
	}
	return Finding{OK: true, Reason: reasonNoLease}
}

// unheard returns the identity of a launcher whose heartbeats have had no reply for its TTL although its
// other connections have; "" if all heartbeats are confirmed, and in an outage, in which no connection has
// replies.
func (g *Group) unheard() string {
	for i, l := range g.launchers {
		if !g.stop[i].Load() && l.silence() > l.cfg.TTL && l.report.AnsweredWithin(answeredLately) {
			return l.Identity()
		}
	}
	return ""
}

// denied returns the recent error by which Redis denied a launcher access.
func (g *Group) denied() error {
	for _, l := range g.launchers {
		if err := l.report.Denied(); err != nil {
			return err
		}
	}
	return nil
}

// silent returns the finding for a worker that gets no reply from Redis, or a wrong one.
func silent(err error) Finding {
	found := Finding{Reason: reasonRedisAway, Detail: withoutAddresses(err.Error())}
	if advice := driver.Denial(err); advice != "" {
		found.Reason, found.Detail = reasonAccessDenied, found.Detail+": "+advice
	}
	return found
}

// intends says whether all launchers are there and mean to take jobs, and if not, why.
func (g *Group) intends() Finding {
	if g.phase.Load() != phaseRunning {
		return Finding{Reason: reasonNotRunning, Detail: "Run has not been called, or has returned"}
	}
	for i, l := range g.launchers {
		switch {
		case g.stop[i].Load():
			return Finding{Reason: reasonStopping}
		case g.quiet[i].Load():
			return Finding{Reason: reasonQuiet}
		case l.Identity() == "":
			return Finding{Reason: reasonNotRegistered, Detail: "redis has not answered yet"}
		}
	}
	return Finding{OK: true}
}

// standing is the identity of a launcher whose manager does not turn; empty when all do.
func (g *Group) standing(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, redisSoon)
	defer cancel()
	for _, l := range g.launchers {
		if !l.Turns(ctx) {
			return l.Identity()
		}
	}
	return ""
}

// staying are the identities of those that do not stop.
func (g *Group) staying() []string {
	var names []string
	for i, l := range g.launchers {
		if !g.stop[i].Load() {
			names = append(names, l.Identity())
		}
	}
	return names
}

// lapsed asks Redis whether it counts the launchers among the living, as it does before it gives jobs to one, and is the
// identity of one that it does not. One that stops has leave to go before the others.
func (g *Group) lapsed(ctx context.Context) (identity string, err error) {
	ctx, cancel := context.WithTimeout(ctx, redisSoon)
	defer cancel()
	calls := []driver.Call{driver.Command("TIME")}
	identities := g.staying()
	for _, identity := range identities {
		calls = append(calls, driver.Command("ZSCORE", lua.NewKeys(g.cfg.Prefix).Alive(), identity))
	}
	replies := g.cfg.Client.Do(ctx, calls...)
	for _, reply := range replies {
		if reply.Err != nil {
			return "", fmt.Errorf("ask redis: %w", reply.Err)
		}
	}
	now := milliseconds(replies[0])
	for i, identity := range identities {
		text, _ := replies[i+1].Value.(string)
		if expires, err := strconv.ParseFloat(text, 64); err != nil || expires <= now {
			return identity, nil
		}
	}
	return "", nil
}

// milliseconds are those of an answer to TIME, which is seconds and microseconds.
func milliseconds(reply driver.Reply) float64 {
	parts, _ := reply.Value.([]any)
	if len(parts) != 2 {
		return 0
	}
	seconds, _ := parts[0].(string)
	micros, _ := parts[1].(string)
	s, _ := strconv.ParseFloat(seconds, 64)
	us, _ := strconv.ParseFloat(micros, 64)
	return s*1e3 + us/1e3
}
