package belay

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// Health answers those who look after processes, at two paths; mount it where they are asked for:
//
//	GET /healthz  is the process alive? 503 says: start it anew. An outage of Redis is not its fault, and answers 200.
//	GET /readyz   does it take jobs? 200 only when it is registered, Redis answers and has it among the living, and it is
//	              neither quiet nor stopping. Otherwise 503, with the reason.
//
// Both answer {"ok": bool, "reason": "...", "detail": "..."}, without a reason when all is well. Reasons are not_running,
// not_registered, stopping, quiet, redis_away, no_lease, and of /healthz standing_still and no_heartbeat; with capsules, that of the first one
// that has any. No answer waits for Redis longer than half a second.
func (s *Server) Health() http.Handler {
	mux := http.NewServeMux()
	for path, ask := range map[string]func(context.Context) finding{"/healthz": s.alive, "/readyz": s.ready} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			found := ask(r.Context())
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			if !found.OK {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_ = json.NewEncoder(w).Encode(found) // to one who has gone
		})
	}
	return mux
}

// A finding is the answer to a question about the server's health.
type finding struct {
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
}

const (
	// redisSoon is how long a question waits for Redis: Kubernetes gives a probe a second by default.
	redisSoon = 500 * time.Millisecond
	// heartGrace is for how long, besides its TTL, a server may be dead to a Redis that answers: after an outage the heart
	// needs up to two seconds to find that out.
	heartGrace = 10 * time.Second
)

// ready says whether the server takes jobs: what it knows itself first, then what Redis says, in whose eyes it must live to
// be given any.
func (s *Server) ready(ctx context.Context) finding {
	if found := s.launcher.intends(); !found.OK {
		return found
	}
	living, err := s.living(ctx)
	switch {
	case err != nil:
		return finding{Reason: "redis_away", Detail: err.Error()}
	case living != "":
		return finding{Reason: "no_lease", Detail: "redis does not count " + living + " among the living"}
	}
	return finding{OK: true}
}

// alive says whether the server is worth keeping. Only a manager that stands still, and a heart that has stopped although
// Redis answers, say no.
func (s *Server) alive(ctx context.Context) finding {
	g := s.launcher
	if g.phase.Load() == phaseEnded {
		return finding{Reason: "not_running", Detail: "its Run has returned"}
	}
	if found := g.intends(); found.Reason == "not_running" || found.Reason == "not_registered" {
		return finding{OK: true, Reason: found.Reason, Detail: found.Detail}
	}
	if stuck := g.standing(ctx); stuck != "" {
		return finding{Reason: "standing_still", Detail: "the manager of " + stuck + " does not come to what it is told"}
	}
	lapsed, err := s.living(ctx)
	if err != nil || lapsed == "" {
		g.lapsedSince.Store(0)
		if err != nil {
			return finding{OK: true, Reason: "redis_away", Detail: err.Error()}
		}
		return finding{OK: true}
	}
	now := time.Since(g.bornAt)
	g.lapsedSince.CompareAndSwap(0, int64(now))
	if lasted := now - time.Duration(g.lapsedSince.Load()); lasted > heartGrace+g.ttl {
		return finding{Reason: "no_heartbeat", Detail: fmt.Sprintf("redis answers, and has not heard from %s for %v", lapsed, lasted.Round(time.Second))}
	}
	return finding{OK: true, Reason: "no_lease"}
}

// living asks Redis whether it counts the launchers among the living, as it does before it gives jobs to one; lapsed is the
// identity of one that it does not. One that stops has leave to go before the others.
func (s *Server) living(ctx context.Context) (lapsed string, err error) {
	ctx, cancel := context.WithTimeout(ctx, redisSoon)
	defer cancel()
	calls := []driver.Call{driver.Command("TIME")}
	identities := s.launcher.staying()
	for _, identity := range identities {
		calls = append(calls, driver.Command("ZSCORE", lua.NewKeys(s.client.Config().Prefix).Alive(), identity))
	}
	replies := s.client.Driver().Do(ctx, calls...)
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
