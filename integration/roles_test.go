package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// users are the Redis users of the roles, by role. With BELAY_ACL=1 each program runs as one that may do what
// belay check --acl prints for it, and nothing else, and at the end of the test nothing has been denied. Without
// it all programs run as the user that may do everything. The tests themselves always do.
type users map[string]string

// newUsers makes none. When the test ends, it holds that nothing was denied to those that were made.
func newUsers(t *testing.T, server *drivertest.Server) users {
	t.Helper()
	u := users{}
	t.Cleanup(func() {
		if len(u) == 0 || t.Failed() {
			return
		}
		denied, err := server.Do(context.WithoutCancel(t.Context()), "ACL", "LOG", "128")
		if err != nil {
			return // the test has ended the server
		}
		entries, _ := denied.([]any)
		for _, entry := range entries {
			if text := fmt.Sprint(entry); slices.ContainsFunc(slices.Collect(u.names), func(name string) bool { return strings.Contains(text, name) }) {
				t.Errorf("denied to a user that has all permissions of its role: %s", text)
			}
		}
	})
	return u
}

func (u users) names(yield func(string) bool) {
	for _, name := range u {
		if !yield(name) {
			return
		}
	}
}

// admit makes the user of a role in this keyspace, and returns its URL.
func (s *site) admit(role string) (url string) {
	s.t.Helper()
	name := s.users[role]
	if name == "" {
		name = role + "-" + newJID()
		rule, errs, code := runBelay(s.t, nil, "check", "--acl", role, "--user", name, "--prefix", s.prefix)
		require.Zero(s.t, code, errs)
		s.do(append(strings.Fields(rule), ">"+name)...)
		_, _ = s.server.Do(s.t.Context(), "ACL", "SAVE") // where the server has a file for it
		s.users[role] = name
	}
	return strings.Replace(s.url, "://", "://"+name+":"+name+"@", 1)
}

// urlOf is the URL for programs of a role; "" is the role that may do everything.
func (s *site) urlOf(role string) string {
	s.t.Helper()
	if !drivertest.Roles() || role == "" || strings.Contains(s.url, "@") {
		return s.url
	}
	return s.admit(role)
}

// asWorker are the words of a command line with the URL for workers in place of the site's.
func (s *site) asWorker(words []string) []string {
	s.t.Helper()
	words = slices.Clone(words)
	for i := range words {
		if words[i] == s.url {
			words[i] = s.urlOf("worker")
		}
	}
	return words
}

// roleOf is the role of a command of belay.
func roleOf(words []string) string {
	verb := ""
	if len(words) > 1 && !strings.HasPrefix(words[1], "-") {
		verb = words[1]
	}
	switch words[0] {
	case "demo", "check":
		return "" // the former deletes all that it has made, and the latter reads settings
	case "work", "return":
		return "worker"
	case "push":
		return "producer"
	case "status", "find", "list", "top", "classes", "queues", "processes", "locks", "periodic", "dead", "retries", "scheduled":
		if words[0] == "find" || words[0] == "list" || slices.Contains([]string{"", "list", "find", "history"}, verb) {
			return "dashboard"
		}
	}
	return "operator"
}
