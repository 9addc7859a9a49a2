package web

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
)

func basic(name, password string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password)), "Sec-Fetch-Site", "same-origin"}
}

func someUsers(t *testing.T) *Users {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("correct horse"), bcrypt.MinCost)
	require.NoError(t, err)
	file := fmt.Sprintf("# users\n\nother:x\nalice:%s\n", hash)
	users := NewUsers()
	require.NoError(t, users.Add("alice", strings.NewReader(file), false))
	require.NoError(t, users.Add("guest", strings.NewReader(fmt.Sprintf("%x  -\n", sha256.Sum256([]byte("look")))), true))
	return users
}

func TestEveryRouteButHealthNeedsAUser(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.failed(r.keys.Dead(), 1)
	handler, before := someUsers(t).Require(r.dash), r.digest()
	paths := []string{"/nope", "//", "/%2e%2e/", "/healthz/", "/healthz%2f..", "/x/../healthz"}
	for path := range r.dash.routes {
		paths = append(paths, path)
	}
	for _, path := range paths {
		for _, method := range methods {
			for _, wrong := range [][]string{
				nil, basic("alice", "wrong"), basic("alice", ""), basic("", ""), basic("nobody", "correct horse"), basic("alice", "look"),
				basic("ALICE", "correct horse"), {"Authorization", "Bearer x"}, {"Authorization", "Basic !"},
			} {
				got := r.ask(handler, method, path, "in=dead&do=delete&all=1", wrong...)
				if path == "/healthz" {
					require.NotEqual(t, http.StatusUnauthorized, got.status)
					continue
				}
				require.Equal(t, http.StatusUnauthorized, got.status, "%s %s", method, path)
				require.Contains(t, got.head.Get("WWW-Authenticate"), "Basic")
				require.NotContains(t, got.body, "Report")
			}
		}
	}
	require.Equal(t, before, r.digest())
	for range 2 { // the second time by the remembered hash
		require.Equal(t, http.StatusOK, r.ask(handler, "GET", "/dead", "", basic("alice", "correct horse")...).status)
		require.Equal(t, http.StatusOK, r.ask(handler, "GET", "/dead", "", basic("guest", "look")...).status)
		require.Equal(t, http.StatusUnauthorized, r.ask(handler, "GET", "/dead", "", basic("alice", "correct horse ")...).status)
	}
}

func TestAViewerMayLookAndNotAct(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.failed(r.keys.Dead(), 2)
	r.do("SADD", r.keys.Queues(), "mail")
	handler, before := someUsers(t).Require(r.dash), r.digest()
	requireNoActs(t, r, handler, basic("guest", "look"))
	require.Equal(t, before, r.digest())
	got := r.ask(handler, "POST", "/act", "in=dead&do=delete&id=jid000000", basic("alice", "correct horse")...)
	require.Equal(t, http.StatusSeeOther, got.status)
	require.NotEqual(t, before, r.digest())
	require.Contains(t, r.log.String(), `"user":"alice"`)
	require.Contains(t, r.log.String(), `"act":"delete"`)
}

// requireNoActs requires that no page has a button and every act is refused.
func requireNoActs(t *testing.T, r *rig, handler http.Handler, headers []string) {
	t.Helper()
	forms := map[string]string{
		"/act": "in=dead&do=delete&all=1", "/queue": "name=mail&do=pause", "/locks": "digest=x", "/signal": "process=x&do=stop",
		"/reset": "do=reset", "/cancel": "jid=x", "/periodic": "name=x&do=run",
	}
	for path, route := range r.dash.routes {
		if route.post != nil {
			require.Contains(t, forms, path, "a form for each route with acts")
			got := r.ask(handler, "POST", path, forms[path], headers...)
			require.Equal(t, http.StatusForbidden, got.status, path)
		}
		if route.get != nil && !strings.HasPrefix(path, "/assets/") {
			require.NotContains(t, r.ask(handler, "GET", path+"?name=mail", "", headers...).body, `method="post"`, path)
		}
	}
	require.Contains(t, r.log.String(), "dashboard act refused")
}

func TestUsersFileMistakes(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"alice": "bob:$2y$10$abcdefghijklmnopqrstuuJ0PWL1zVQ7kN1KyM8F0M0rTtKbYqzaK\n", "plain": "plain:secret\n", "empty": "", "a:b": "x", "": "x",
		"short": "short:abcdef\n", "md5": "md5:$apr1$abc$def\n",
	} {
		require.Error(t, NewUsers().Add(name, strings.NewReader(file), false), name)
	}
	require.Zero(t, NewUsers().Len())
}

func TestListenNeedsUsersBeyondLoopback(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		_, err := Listen(addr, NewUsers())
		require.ErrorContains(t, err, "no user", addr)
		listener, err := Listen(addr, someUsers(t))
		require.NoError(t, err)
		require.NoError(t, listener.Close())
	}
	listener, err := Listen("127.0.0.1:0", NewUsers())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
}
