package drivertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A Watched is a primary with two replicas that three sentinels watch.
type Watched struct {
	// Servers are the primary, as it was at first, and the replicas. Primary returns the primary of now.
	Servers []*Server
	// Sentinels are as many as it takes to agree, two, and one more.
	Sentinels []*Server
}

// WatchedName is the name under which the sentinels of StartSentinel know the primary.
const WatchedName = "belay"

// StartSentinel starts a Watched, with args added to the command line of each of its servers, and returns when
// every sentinel knows all others and both replicas. A primary that is silent for a second is replaced. All of
// it ends with the test.
func StartSentinel(t testing.TB, args ...string) *Watched {
	t.Helper()
	w := &Watched{}
	for range 3 {
		w.Servers = append(w.Servers, Start(t, append([]string{"--repl-diskless-sync-delay", "0"}, args...)...))
	}
	host, port, _ := net.SplitHostPort(w.Servers[0].Addr())
	for _, replica := range w.Servers[1:] {
		mustDo(t, replica, "REPLICAOF", host, port)
	}
	for range 3 {
		config := filepath.Join(t.TempDir(), "sentinel.conf")
		text := strings.ReplaceAll("protected-mode no\nsentinel monitor NAME "+host+" "+port+" 2\n"+
			"sentinel down-after-milliseconds NAME 1000\nsentinel failover-timeout NAME 3000\nsentinel parallel-syncs NAME 2\n", "NAME", WatchedName)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.Sentinels = append(w.Sentinels, start(t, form{dir: t.TempDir(), sentinel: config}))
	}
	for _, sentinel := range w.Sentinels {
		Eventually(t, func() bool {
			facts := Pairs(sentinel.do("SENTINEL", "MASTER", WatchedName))
			return facts["num-slaves"] == "2" && facts["num-other-sentinels"] == "2" && facts["flags"] == "master"
		}, startTimeout, 20*time.Millisecond, "a sentinel knows all servers")
	}
	for _, replica := range w.Servers[1:] {
		awaitReplica(t, replica)
	}
	return w
}

// URL returns the URL of the primary by its sentinels.
func (w *Watched) URL() string {
	return "redis+sentinel://" + strings.Join(addrs(w.Sentinels), ",") + "/" + WatchedName
}

// Primary returns the server that is the primary and that replicas follow, or nil while there is none. An old
// primary that has been frozen takes itself for one until it meets the new one, but has no replicas.
func (w *Watched) Primary() *Server {
	for _, server := range w.Servers {
		if role, _ := server.do("ROLE").([]any); len(role) == 3 && role[0] == "master" && role[2] != nil {
			if replicas, _ := role[2].([]any); len(replicas) > 0 {
				return server
			}
		}
	}
	return nil
}

// FailOver has the sentinels replace the primary, which stays alive, and returns the new one.
func (w *Watched) FailOver(t testing.TB) *Server {
	t.Helper()
	old := w.Primary()
	Eventually(t, func() bool { return w.Sentinels[0].do("SENTINEL", "FAILOVER", WatchedName) == "OK" }, startTimeout, 100*time.Millisecond,
		"a sentinel agrees to fail over")
	return w.AwaitPrimary(t, old)
}

// AwaitPrimary returns the primary as soon as it is another server than old and every sentinel names it.
func (w *Watched) AwaitPrimary(t testing.TB, old *Server) *Server {
	t.Helper()
	var now *Server
	Eventually(t, func() bool {
		now = w.Primary()
		if now == nil || now == old {
			return false
		}
		return !slices.ContainsFunc(w.Sentinels, func(sentinel *Server) bool {
			named, _ := sentinel.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", WatchedName).([]any)
			return named != nil && net.JoinHostPort(fmt.Sprint(named[0]), fmt.Sprint(named[1])) != now.Addr() // a frozen one says nothing
		})
	}, 3*startTimeout, 20*time.Millisecond, "another server is the primary")
	return now
}

// awaitReplica waits until a server has the data of its primary.
func awaitReplica(t testing.TB, server *Server) {
	t.Helper()
	Eventually(t, func() bool {
		role, _ := server.do("ROLE").([]any)
		return len(role) > 3 && role[0] == "slave" && role[3] == "connected"
	}, startTimeout, 20*time.Millisecond, "a replica has the data of its primary")
}

// do returns the reply of a server, or nil if it gives none within a moment.
func (s *Server) do(words ...string) any {
	ctx, cancel := context.WithTimeout(context.Background(), 250*time.Millisecond)
	defer cancel()
	value, err := s.Do(ctx, words...)
	if err != nil {
		return nil
	}
	return value
}

func mustDo(t testing.TB, s *Server, words ...string) any {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	value, err := s.Do(ctx, words...)
	if err != nil {
		t.Fatalf("%s at %s: %v", words[0], s.Addr(), err)
	}
	return value
}

// Pairs returns a reply of alternating names and values, as many commands give it, as a map of texts.
func Pairs(reply any) map[string]string {
	items, _ := reply.([]any)
	facts := make(map[string]string, len(items)/2)
	for pair := range slices.Chunk(items, 2) {
		facts[fmt.Sprint(pair[0])] = fmt.Sprint(pair[len(pair)-1])
	}
	return facts
}

func addrs(servers []*Server) []string {
	all := make([]string, len(servers))
	for i, server := range servers {
		all[i] = server.Addr()
	}
	return all
}
