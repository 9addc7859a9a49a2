package integration

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// verdict is what belay check --json says.
type verdict struct {
	Worst    string
	Findings []struct{ Name, Severity, Found, Advice string }
}

// check runs belay check with its exit status.
func (s *site) check() (verdict, int) {
	s.t.Helper()
	out, errs, code := s.belay("check", "--json")
	var v verdict
	require.NoError(s.t, json.Unmarshal([]byte(out), &v), "%s%s", out, errs)
	return v, code
}

// of is what was found under a name: its severity, and all text of it.
func (v verdict) of(name string) (severity, text string) {
	for _, finding := range v.Findings {
		if finding.Name == name {
			return finding.Severity, finding.Found + " -> " + finding.Advice
		}
	}
	return "", ""
}

// bothClients runs a test with either Redis client on a server of its own.
func bothClients(t *testing.T, args []string, test func(t *testing.T, s *site)) {
	t.Helper()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			s := newSite(t, drivertest.Start(t, args...))
			s.client = client
			test(t, s)
		})
	}
}

func TestCheckTellsWhatIsBad(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		promise string
		args    string
		name    string
		want    string
		code    int
		says    string
	}{
		{"a Redis that keeps what it acknowledges is fit", "", "persistence", "ok", 0, "AOF"},
		{"eviction loses jobs", "--maxmemory-policy allkeys-random", "eviction", "bad", 1, "maxmemory-policy noeviction"},
		{"without persistence a restart loses jobs", "--appendonly no", "persistence", "bad", 1, "appendonly yes"},
		{"a replica takes no jobs", "--replicaof 127.0.0.1:1", "role", "bad", 1, "primary"},
		{"a Cluster wants a hash tag", "--cluster-enabled yes", "cluster", "bad", 1, "--prefix"},
		{"a password is wanted", "--requirepass " + canary, "access", "bad", 1, "password"},
		{"what cannot be seen is no failure", "--rename-command CONFIG -", "sight", "warn", 0, "managed"},
	} {
		t.Run(c.promise, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"--appendonly", "yes"}, strings.Fields(strings.Replace(c.args, ":", " ", 1))...)
			if args[len(args)-1] == "-" {
				args[len(args)-1] = "" // renamed to nothing: it does not exist
			}
			bothClients(t, args, func(t *testing.T, s *site) {
				s.url = s.server.URL() // without the canary, which one of the servers wants
				v, code := s.check()
				severity, text := v.of(c.name)
				require.Equal(t, c.want, severity, "%+v", v)
				require.Equal(t, c.code, code, "%+v", v)
				require.Contains(t, text, c.says)
				requireNoCanary(t, text)
			})
		})
	}
}

// Who follows the advice of belay check has a user that may do all that workers do, and nothing else: neither
// pushing, working, a crash and its recovery nor a retry is ever denied anything.
func TestCheckAdvisesAUserThatSuffices(t *testing.T) {
	t.Parallel()
	bothClients(t, []string{"--appendonly", "yes"}, func(t *testing.T, s *site) {
		s.do("ACL", "SETUSER", "tight", "reset", "on", ">"+canary, "-@all", "+eval", "+evalsha")
		s.url = withPassword(s.url, "tight")
		for range 10 {
			v, _ := s.check()
			advised := false
			for _, name := range []string{"permissions", "blocking", "presence"} {
				severity, text := v.of(name)
				requireNoCanary(t, text)
				if _, rule, found := strings.Cut(text, "-> ACL SETUSER "); found && severity != "ok" {
					s.do(append([]string{"ACL", "SETUSER"}, replaceUser(strings.Fields(rule))...)...)
					advised = true
				}
			}
			if !advised {
				break
			}
		}
		v, code := s.check()
		require.Zero(t, code, "%+v", v)
		for _, name := range []string{"permissions", "blocking", "presence"} {
			severity, text := v.of(name)
			require.Equal(t, "ok", severity, text)
		}
		rules := s.aclOf("tight")
		require.Contains(t, rules, "-@all")
		require.NotContains(t, rules, "+@all")
		// Redis may write rules as a category and its exceptions, so the commands are tried: some of those categories.
		for _, needless := range []string{
			"KEYS *", "HGETALL a", "HKEYS a", "HVALS a", "HINCRBYFLOAT a b 1", "SINTER a", "SPOP a", "LTRIM a 0 1", "ZINCRBY a 1 b",
			"GETDEL a", "APPEND a b", "RENAME a b", "FLUSHALL", "CONFIG GET a", "ACL LIST", "SHUTDOWN", "DEBUG JMAP", "MONITOR",
		} {
			answer := s.do(append([]string{"ACL", "DRYRUN", "tight"}, strings.Fields(needless)...)...)
			require.Contains(t, answer, "no permissions to run", needless)
		}
		require.NotContains(t, rules, " ~* ")
		s.do("ACL", "LOG", "RESET")

		book := newLedger(t)
		flags := append(fast, "-q", "mail", "--poll", "20ms", "--exec", book.exec("Good"), "--exec", "Bad=false")
		victim := s.work(flags...)
		killed := s.pushAs("Good", jsonArgs(1, 2000))
		book.awaitStart(killed, 1)
		successor := s.work(flags...)
		victim.kill()
		book.awaitStart(killed, 2)
		s.pushAs("Bad", "[]")
		later := s.pushAs("Good", jsonArgs(2, 0), "--in", "1s")
		book.awaitEnd(later)
		book.awaitEnd(killed)
		eventually(t, "the failure to be written down", func() bool { return len(s.set(s.keys.Retry())) == 1 })
		require.Positive(t, s.by(s.server.URL()).status().Processed)
		successor.signal(syscall.SIGTERM)
		require.Zero(t, successor.wait(), successor.log())
		denied := s.do("ACL", "LOG")
		require.Empty(t, denied, "%v", denied)
	})
}

// replaceUser names the user where the advice could not.
func replaceUser(rule []string) []string {
	rule[0] = "tight"
	return rule
}

func (s *site) aclOf(user string) string {
	s.t.Helper()
	for _, line := range texts(s.do("ACL", "LIST")) {
		if strings.HasPrefix(line, "user "+user+" ") {
			return line + " "
		}
	}
	return ""
}

// pushAs pushes a job by belay push, and answers its jid.
func (s *site) pushAs(class, args string, flags ...string) string {
	s.t.Helper()
	var words []any
	require.NoError(s.t, json.Unmarshal([]byte(args), &words))
	line := []string{"push", class}
	for _, word := range words {
		text, err := json.Marshal(word)
		require.NoError(s.t, err)
		line = append(line, string(text))
	}
	out, errs, code := s.belay(append(append(line, "-q", "mail"), flags...)...)
	require.Zero(s.t, code, "%s", errs)
	return strings.TrimSpace(out)
}

// A worker says at its start what check would say, and does not wait for it.
func TestWorkersSayWhatCheckSays(t *testing.T) {
	t.Parallel()
	bothClients(t, []string{"--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"}, func(t *testing.T, s *site) {
		book := newLedger(t)
		jid := s.push("Any", "default", jsonArgs(1, 0))
		worker := s.work("--exec", book.exec("Any"))
		book.awaitEnd(jid)
		worker.awaitLog("maxmemory-policy is allkeys-lru")
		worker.signal(syscall.SIGTERM)
		require.Zero(t, worker.wait(), worker.log())
		slow := strings.Count(worker.log(), `"check":"latency"`) // which a busy machine is
		require.Equal(t, 1, strings.Count(worker.log(), `"check":`)-slow, worker.log())
	})
}

// With a Redis that stops while it is looked at, a worker stops as fast as ever.
func TestTheLookAtTheStartDelaysNoStop(t *testing.T) {
	t.Parallel()
	bothClients(t, nil, func(t *testing.T, s *site) {
		s.server.Stop()
		worker := s.start("--shutdown-timeout", "1s", "--exec", "Any=true")
		eventually(t, "the worker to find no server", func() bool { return worker.log() != "" || worker.ended() })
		began := time.Now()
		worker.signal(syscall.SIGTERM)
		require.Zero(t, worker.wait(), worker.log())
		t.Logf("stopped within %v", time.Since(began))
		require.Less(t, time.Since(began), 15*time.Second)
		require.NotContains(t, worker.log(), `"check":`)
		s.server.Cont()
	})
}
