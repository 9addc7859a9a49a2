package integration

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/internal/drivertest"
)

// What belay check --acl prints for a URL with shards is enough for each role on all of them, and for no other
// keyspace.
func TestUsersOfRolesAreDeniedNothingOnShards(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	s := &site{t: t, server: server, prefix: "shop", url: withPassword(server.URL(), "default"), client: "go-redis"}
	shards := func(url string) string { return url + "?shards=12" }
	book := newLedger(t)
	with := func(role check.Role, words ...string) (out string, code int) {
		url := shards(withPassword(s.url, string(role)))
		out, errs, code := runBelay(t, nil, append(words, "--redis", url, "--prefix", s.prefix)...)
		return out + errs, code
	}
	for _, role := range check.Roles() {
		out, errs, code := runBelay(t, nil, "check", "--acl", string(role), "--user", string(role), "--redis", shards(s.url), "--prefix", s.prefix)
		require.Zero(t, code, errs)
		s.do(append(strings.Fields(out), ">"+canary)...)
	}
	s.do("ACL", "LOG", "RESET")

	worker := s.launch(belayPath, "work", "--redis", shards(withPassword(s.url, string(check.RoleWorker))), "--prefix", s.prefix,
		"--log-format", "json", "--exec", book.exec("*"))
	worker.awaitLog("working")
	for n := range 24 {
		out, code := with(check.RoleProducer, "push", "Any", fmt.Sprint(n))
		require.Zero(t, code, out)
	}
	eventually(t, "the jobs to run", func() bool { return len(book.ends("")) == 24 })
	for _, words := range []string{"status", "queues", "shards", "find --class Any", "locks", "limits"} {
		out, code := with(check.RoleDashboard, strings.Fields(words)...)
		require.Zero(t, code, out)
	}
	worker.signal(syscall.SIGTERM)
	require.Zero(t, worker.wait(), worker.log())
	for _, words := range []string{"queues pause default", "queues resume default", "dead clear --yes", "shards bind 0 1 2 3 4 5 6 7 8 9 10 11 --yes"} {
		out, code := with(check.RoleOperator, strings.Fields(words)...)
		require.Zero(t, code, "%s: %s", words, out)
	}
	for n := range 6 { // on shards that the key decides
		out, code := with(check.RoleProducer, "push", "Any", "--key", fmt.Sprint("k", n))
		require.Zero(t, code, out)
	}
	u := users{}
	for _, role := range check.Roles() {
		u[role] = string(role)
	}
	require.Empty(t, u.denied(server))

	other, err := server.Do(context.Background(), "ACL", "DRYRUN", string(check.RoleWorker), "LPUSH", "{other:0}:queue:default", "x")
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(other), "no permissions")
}
