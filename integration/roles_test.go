package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/check"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/integration/program"
	"github.com/belayq/belay/internal/drivertest"
)

// users are the names of the Redis users of the roles. With BELAY_ACL=1 each program runs as one that may do what
// belay check --acl prints for it, and nothing else, and at the end of the test nothing has been denied. So does each
// client that a test has for a part which it plays itself: driverOf and clientOf open these. Without the variable there
// are no users, and all are the one that may do everything. That one is always the test's, where it prepares
// something, breaks something or judges: see site.do and site.instrument.
type users map[check.Role]string

// newUsers makes the users of a keyspace, or of shards, if programs run as such, on each server that may come to
// have it.
func newUsers(t *testing.T, of check.Config, servers ...*drivertest.Server) users {
	t.Helper()
	if !drivertest.Roles() {
		return users{}
	}
	return makeUsers(t, of, servers...)
}

// makeUsers makes these users, and holds at the end of the test that nothing was denied to them. There
// are none on a server that wants a password.
func makeUsers(t *testing.T, of check.Config, servers ...*drivertest.Server) users {
	t.Helper()
	u := users{}
	for _, role := range check.Roles() {
		u[role] = string(role) + "-" + newJID()
	}
	for _, server := range servers {
		u.addTo(t, server, of)
	}
	return u
}

// addTo makes the users on one server.
func (u users) addTo(t *testing.T, server *drivertest.Server, of check.Config) {
	t.Helper()
	do := func(words ...string) any {
		answer, _ := server.Do(context.WithoutCancel(t.Context()), words...) // the test may have ended the server
		return answer
	}
	for role, name := range u {
		rule, err := check.Rule(role, name, of)
		require.NoError(t, err)
		if do(append(strings.Fields(rule), ">"+canary)...) != "OK" {
			delete(u, role)
		}
	}
	do("ACL", "SAVE") // where the server has a file for it
	t.Cleanup(func() {
		for _, text := range u.denied(server) {
			if !t.Failed() {
				t.Errorf("denied to a user that has all permissions of its role: %s", text)
			}
		}
	})
}

// denied returns the entries of the ACL LOG about these users; none if the server is gone.
func (u users) denied(server *drivertest.Server) (about []string) {
	answer, _ := server.Do(context.Background(), "ACL", "LOG", "128")
	entries, _ := answer.([]any)
	for _, entry := range entries {
		for _, name := range u {
			if text := fmt.Sprint(entry); strings.Contains(text, name) {
				about = append(about, text)
			}
		}
	}
	return about
}

// urlOf is the URL for programs of a role; "" is the role that may do everything.
func (s *site) urlOf(role check.Role) string {
	name := s.users[role]
	if name == "" {
		return s.url
	}
	return withPassword(s.url, name)
}

// login is the name and the password for a client that gets no URL; both are empty for one that may do everything.
func (u users) login(role check.Role) (name, password string) {
	if name = u[role]; name != "" {
		password = canary
	}
	return name, password
}

// driverOf opens a client of Redis for a part of this role that the test plays itself, until the test ends.
func (s *site) driverOf(role check.Role) driver.Client {
	s.t.Helper()
	redis, err := openers[s.client](s.urlOf(role))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = redis.Close() })
	return redis
}

// clientOf opens Belay's client for such a part, with the shards that the URL of the site names.
func (s *site) clientOf(role check.Role) *belay.Client {
	s.t.Helper()
	flags := program.Flags{URL: s.urlOf(role), Client: s.client, Prefix: s.prefix}
	opened, err := flags.Open()
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = opened.Close() })
	return opened
}

// asRole are the words of a program's command line, with the URL for its role: a command of belay has its own, and
// all else is a worker. A URL that names a user already stays as it is.
func (s *site) asRole(path string, words []string) []string {
	role, words := check.RoleWorker, slices.Clone(words)
	if path == belayPath {
		role = roleOf(words)
	}
	if n := urlIn(words); n > 0 && (words[n] == s.url || !strings.Contains(words[n], "@")) {
		words[n] = s.by(words[n]).urlOf(role)
	}
	return words
}

// roleOf is the role of a command of belay.
func roleOf(words []string) check.Role {
	verb := ""
	if len(words) > 1 && !strings.HasPrefix(words[1], "-") {
		verb = words[1]
	}
	switch words[0] {
	case "demo", "check":
		return "" // the former deletes all that it has made, and the latter reads settings
	case "work", "return":
		return check.RoleWorker
	case "push":
		return check.RoleProducer
	case "batches":
		switch verb {
		case "new", "seal":
			return check.RoleProducer
		case "", "show":
			return check.RoleDashboard
		}
	case "status", "find", "list", "top", "classes", "queues", "processes", "locks", "periodic", "dead", "retries", "scheduled":
		if words[0] == "find" || words[0] == "list" || slices.Contains([]string{"", "list", "find", "history"}, verb) {
			return check.RoleDashboard
		}
	}
	return check.RoleOperator
}

// Each kind of program does what it is for as a user that has the permissions of its role and no others: jobs of all
// kinds are pushed, run, fail, are retried and cancelled; a worker is killed and its jobs run again; operators list
// and act; the dashboard shows each page. Nothing is denied.
func TestProgramsOfEachRoleAreDeniedNothing(t *testing.T) {
	t.Parallel()
	bothClients(t, nil, func(t *testing.T, s *site) {
		if len(s.users) == 0 {
			s.users = makeUsers(t, check.Config{Prefix: s.prefix}, s.server)
		}
		s.url += "?client_name=shop" // which needs a command of its own
		play(t, s)
		require.Empty(t, s.users.denied(s.server))

		// The limits of the lesser roles. A script is no way around them.
		key := s.keys.Queue("mail")
		s.do("LPUSH", key, "{}")
		for role, calls := range map[check.Role][][]string{
			check.RoleProducer:  {{"LRANGE", key, "0", "-1"}, {"DEL", key}, {"RPOP", key}, {"EVAL", "return redis.call('DEL', KEYS[1])", "1", key}},
			check.RoleDashboard: {{"DEL", key}, {"LPUSH", key, "{}"}, {"EVAL", "return redis.call('LPUSH', KEYS[1], '')", "1", key}},
			check.RoleWorker:    {{"GET", "another:key"}, {"CONFIG", "GET", "requirepass"}, {"KEYS", "*"}, {"FLUSHALL"}},
			check.RoleOperator:  {{"GET", "another:key"}, {"CONFIG", "GET", "requirepass"}, {"LMOVE", key, key, "LEFT", "LEFT"}},
		} {
			redis := s.driverOf(role)
			for _, words := range calls {
				require.NotEmpty(t, driver.Denial(redis.Do(t.Context(), driver.Command(words...))[0].Err), "%s %q", role, words)
			}
		}
		out, errs, code := runBelay(t, nil, "queues", "clear", "mail", "--yes", "--redis", s.urlOf(check.RoleDashboard), "--prefix", s.prefix, "--client", s.client)
		require.Equal(t, 1, code, out)
		require.Contains(t, errs, "NOPERM this user may not LREM")
		require.Equal(t, int64(1), s.do("LLEN", key))
		s.do("ACL", "LOG", "RESET")
	})
}

// play has programs of all roles do what they are for.
func play(t *testing.T, s *site) {
	t.Helper()
	must := func(words ...string) string {
		t.Helper()
		out, errs, code := s.belay(words...)
		require.Zero(t, code, "belay %q: %s", words, errs)
		return strings.TrimSpace(out)
	}
	book := newLedger(t)
	cursor := "Cursor=sh -c 'echo 1 >\"$BELAY_CURSOR_FILE\"; echo 2 >\"$BELAY_RESULT_FILE\"; sleep 1'"
	flags := append(fast, "-q", "mail", "-q", "slow", "--poll", "20ms", "--exec", book.exec("Good"), "--exec", "Bad=false", "--exec", cursor)
	victim := s.work(flags...)
	killed := s.pushAs("Good", jsonArgs(1, 3000), "--unique", "until_executed", "--track", "1h")
	book.awaitStart(killed, 1)
	_, errs, code := s.belay("push", "Good", "1", "3000", "-q", "mail", "--unique", "until_executed")
	require.Equal(t, 3, code, errs)
	victim.kill()
	successor := s.work(flags...)
	must("periodic", "add", "hourly", "@every 1h", "Good", "7", "0", "-q", "mail")
	must("periodic", "pause", "hourly")
	must("periodic", "resume", "hourly")
	must("periodic", "run", "hourly")
	must("periodic", "history", "hourly", "--json")
	must("periodic", "list", "--json")
	for _, flags := range [][]string{
		{"--retry", "0"}, {"--retry", "3"}, {"--unique", "until_executing", "--retry", "0"}, {"--track", "1h", "--retry", "0"},
	} {
		s.pushAs("Bad", "[]", flags...)
	}
	batch := must("batches", "new", "--on-complete", "Good", "-q", "mail")
	s.pushAs("Good", jsonArgs(8, 0), "--batch", batch)
	s.pushAs("Bad", "[]", "--batch", batch, "--retry", "0")
	must("batches", "seal", batch)
	must("batches", "show", batch)
	must("batches")
	unused := must("batches", "new")
	must("batches", "invalidate", unused)
	must("batches", "delete", unused)
	s.pushAs("Cursor", "[]", "--track", "1h")
	s.pushAs("Good", jsonArgs(2, 0), "--key", "once")
	_, errs, code = s.belay("push", "Good", "9", "0", "-q", "mail", "--replicas", "1", "--replica-timeout", "20ms")
	require.Equal(t, 6, code, errs)
	require.Contains(t, errs, "0 of 1 within 20ms")
	later := s.pushAs("Good", jsonArgs(3, 0), "--in", "1s")
	far := s.pushAs("Good", jsonArgs(4, 0), "--in", "1h", "--expires-in", "2h", "--unique", "until_executed", "--including-scheduled")
	book.awaitStart(killed, 2)
	book.awaitEnd(killed)
	book.awaitEnd(later)
	eventually(t, "the failures", func() bool { return len(s.set(s.keys.Dead())) == 4 && len(s.set(s.keys.Retry())) == 1 })

	running := s.pushAs("Good", jsonArgs(5, 60000), "--track", "1h")
	book.awaitStart(running, 1)
	must("find", running, "--json")
	must("cancel", running, far)
	must("queues", "pause", "slow")
	s.pushAs("Good", jsonArgs(6, 0), "-q", "slow")
	_, errs, code = s.belay("push", "Good", "6", "0", "-q", "slow", "--jid", "stays")
	require.Zero(t, code, errs)
	for _, list := range []string{
		"status --json", "status --history 3", "queues --json", "queues list slow --json", "processes --json", "dead --json", "dead --group", "retries --json",
		"scheduled --json", "locks --json", "classes --json", "find --class Bad", "list dead", "locks find Good 1 3000",
	} {
		_, errs, code := s.belay(strings.Fields(list)...)
		require.Contains(t, []int{0, 4}, code, "belay %s: %s", list, errs)
		require.NotContains(t, errs, "NOPERM", list)
	}
	requireEachPage(t, s)
	must("queues", "resume", "slow")
	must("queues", "kill", "slow", "--all", "--yes")
	must("retries", "retry", "--class", "Bad")
	must("dead", "retry", "--class", "Bad")
	must("move", "--class", "Good", "--from", "mail", "--to", "slow")
	must("dead", "clear", "--yes")
	must("queues", "clear", "slow", "--yes")
	must("status", "reset", "--yes")
	must("periodic", "remove", "hourly")
	must("classes", "--json")
	identity := successor.identities()[0]
	must("processes", "dump", identity)
	successor.awaitLog("goroutine ")
	successor.signal(syscall.SIGTERM)
	require.Zero(t, successor.wait(), successor.log())
}

// requireEachPage holds that a dashboard whose user may only read shows every page, and that Redis refuses what its
// buttons would do.
func requireEachPage(t *testing.T, s *site) {
	t.Helper()
	web := s.launch(belayPath, "web", "--addr", "127.0.0.1:0", "--redis", s.urlOf(check.RoleDashboard), "--prefix", s.prefix, "--client", s.client)
	eventually(t, "the dashboard", func() bool { return web.says("the dashboard is at ") || web.ended() })
	_, rest, found := strings.Cut(web.log(), "the dashboard is at ")
	require.True(t, found, web.log())
	base := strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0])
	for _, page := range []string{
		"", "busy", "queues", "queue?name=mail", "scheduled", "retries", "dead", "periodic", "history?name=hourly", "locks", "classes", "series.json",
		"metrics", "dead?class=Bad", "redis", "healthz",
	} {
		answer, err := http.Get(base + page)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", page, body)
		require.NotContains(t, string(body), "NOPERM", page)
	}
	web.kill()
}

// A sample of what is needed: without any one of these commands something is denied that a program of the role does.
// Redis' log of denials names the command, or the script does that asks before it writes.
func TestEachPermissionOfARoleIsNeeded(t *testing.T) {
	t.Parallel()
	s := newSite(t, drivertest.Start(t))
	of := users{}
	for _, role := range check.Roles() {
		of[role] = string(role)
	}
	s.users = of
	grant := func(role check.Role, without string) {
		rule, err := check.Rule(role, of[role], check.Config{Prefix: s.prefix})
		require.NoError(t, err)
		for _, word := range []string{" +" + without + " ", " (+" + without + " "} {
			rule = strings.ReplaceAll(rule, word, strings.TrimSuffix(word, "+"+without+" "))
		}
		rule = strings.ReplaceAll(rule, "( ~", "(+ping ~") // a selector that lost its only command
		s.do(append(strings.Fields(rule), ">"+canary)...)
	}
	for _, role := range check.Roles() {
		grant(role, "nothing")
	}
	s.push("Waits", "full", "[]")
	s.do("ZADD", s.keys.Dead(), "1", rubyPayload("Dead", "mail", "[]", newJID()))
	s.work(append(fast, "-q", "mail", "--exec", "Good=true", "--exec", "Bad=false", "--exec", "Slow=sleep 60")...)
	push := []string{"push", "Good", "-q", "mail", "--repeat-for", "1s"}
	slow := []string{"push", "Slow", "-q", "mail", "--key", "one"}
	// Jobs that come one by one are brought by idle waits alone. After the second of several a worker takes.
	several := filepath.Join(t.TempDir(), "several.ndjson")
	require.NoError(t, os.WriteFile(several, []byte(strings.Repeat(`{"class":"Good"}`+"\n", 5)), 0o600))
	for role, actions := range map[check.Role]map[string][]string{
		check.RoleProducer: {
			"lpush": push, "sadd": push, "evalsha": push, "get": push, "zadd": append(push, "--in", "1h"), "set": append(push, "--unique"),
			"wait": append(push, "--replicas", "1", "--replica-timeout", "20ms"), "mget": append(push, "--unique"), "incrby": append(push, "-q", "nobody", "--key", "twice"),
			"zrangebyscore": append(push, "--deadline", "1h"), "hget": append(push, "--deadline", "1h"),
		},
		check.RoleWorker: {
			"lmove": {"push", "--file", several, "-q", "mail"}, "smismember": push, "hexists": nil, "zcard": nil, "zrangebyscore": nil, "time": nil,
			"sadd": slow, "hset": slow, // a busy worker adds itself to the list, and says what it runs
		},
		check.RoleDashboard: {
			"llen": {"queues"}, "lindex": {"queues"}, "hgetall": {"status"}, "zrange": {"status"}, "zrevrange": {"dead"}, "zcard": {"status"}, "smismember": {"queues"},
			"lrange": {"queues", "list", "full"}, "mget": {"status", "--history", "3"}, "zcount": {"locks"}, "sscan": {"find", "--class", "No"},
		},
		check.RoleOperator: {
			"zrem": {"dead", "delete", "--class", "Dead", "--yes"}, "set": {"status", "reset", "--yes"}, "srem": {"queues", "resume", "mail"},
			"hset": {"periodic", "add", "a", "@daily", "Good"}, "zadd": {"cancel", newJID()},
		},
	} {
		for command, words := range actions {
			s.do("ACL", "LOG", "RESET")
			grant(role, command)
			named := func() bool {
				for _, text := range of.denied(s.server) {
					if strings.Contains(text, "object "+command+" ") && strings.Contains(text, "username "+of[role]+" ") {
						return true
					}
				}
				return false
			}
			eventually(t, fmt.Sprintf("%s of a %s to be denied", command, role), func() bool {
				if words != nil && !named() {
					user := role
					if role == check.RoleWorker {
						user = check.RoleProducer
					}
					_, errs, _ := runBelay(t, nil, append(words, "--redis", s.urlOf(user), "--prefix", s.prefix)...)
					if strings.Contains(errs, "may not "+strings.ToUpper(command)+" ") {
						return true
					}
				}
				return named()
			})
			grant(role, "nothing")
		}
	}
}
