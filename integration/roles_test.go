package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/internal/drivertest"
)

// users are the names of the Redis users of the roles. With BELAY_ACL=1 each program runs as one that may do what
// belay check --acl prints for it, and nothing else, and at the end of the test nothing has been denied. Without it
// there are none: programs run as the user that may do everything, as the tests themselves always do.
type users map[check.Role]string

// newUsers makes the users of a keyspace, and holds at the end of the test that nothing was denied to them. There
// are none on a server that wants a password.
func newUsers(t *testing.T, server *drivertest.Server, prefix string) users {
	t.Helper()
	u := users{}
	do := func(words ...string) any {
		answer, _ := server.Do(context.WithoutCancel(t.Context()), words...) // the test may have ended the server
		return answer
	}
	if !drivertest.Roles() {
		return u
	}
	for _, role := range check.Roles() {
		name := string(role) + "-" + newJID()
		rule, err := check.Rule(role, name, check.Config{Prefix: prefix})
		require.NoError(t, err)
		if do(append(strings.Fields(rule), ">"+name)...) == "OK" {
			u[role] = name
		}
	}
	do("ACL", "SAVE") // where the server has a file for it
	t.Cleanup(func() {
		denied, _ := do("ACL", "LOG", "128").([]any)
		for _, entry := range denied {
			for _, name := range u {
				if text := fmt.Sprint(entry); strings.Contains(text, name) && !t.Failed() {
					t.Errorf("denied to a user that has all permissions of its role: %s", text)
				}
			}
		}
	})
	return u
}

// urlOf is the URL for programs of a role; "" is the role that may do everything.
func (s *site) urlOf(role check.Role) string {
	name := s.users[role]
	if name == "" || strings.Contains(s.url, "@") {
		return s.url
	}
	return strings.Replace(s.url, "://", "://"+name+":"+name+"@", 1)
}

// asWorker are the words of a command line with the URL for workers in place of the site's.
func (s *site) asWorker(words []string) []string {
	words = slices.Clone(words)
	for i := range words {
		if words[i] == s.url {
			words[i] = s.urlOf(check.RoleWorker)
		}
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
	case "status", "find", "list", "top", "classes", "queues", "processes", "locks", "periodic", "dead", "retries", "scheduled":
		if words[0] == "find" || words[0] == "list" || slices.Contains([]string{"", "list", "find", "history"}, verb) {
			return check.RoleDashboard
		}
	}
	return check.RoleOperator
}
