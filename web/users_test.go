package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/belayq/belay/internal/drivertest"
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
			for _, headers := range [][]string{
				nil, basic("alice", "wrong"), basic("alice", ""), basic("", ""), basic("nobody", "correct horse"), basic("alice", "look"),
				basic("ALICE", "correct horse"), {"Authorization", "Bearer x"}, {"Authorization", "Basic !"},
			} {
				got := r.ask(handler, method, path, "in=dead&do=delete&all=1", headers...)
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
	requireActsRefused(t, r, handler, headers)
	for path, route := range r.dash.routes {
		if route.get != nil && !strings.HasPrefix(path, "/assets/") {
			require.NotContains(t, r.ask(handler, "GET", path+"?name=mail", "", headers...).body, `method="post"`, path)
		}
	}
}

func requireActsRefused(t *testing.T, r *rig, handler http.Handler, headers []string) {
	t.Helper()
	forms := map[string]string{
		"/act": "in=dead&do=delete&all=1", "/queue": "name=mail&do=pause", "/locks": "digest=x", "/classes": "class=x&do=pause", "/batches": "bid=x&do=seal", "/limits": "name=x&do=set", "/signal": "process=x&do=stop",
		"/reset": "do=reset", "/cancel": "jid=x", "/periodic": "name=x&do=run",
	}
	for path, route := range r.dash.routes {
		if route.post != nil {
			require.Contains(t, forms, path, "a form for each route with acts")
			got := r.ask(handler, "POST", path, forms[path], headers...)
			require.Equal(t, http.StatusForbidden, got.status, path)
		}
	}
	require.Contains(t, r.log.String(), "dashboard act refused")
}

func TestRefusedLoginsAreLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	handler := someUsers(t).Require(r.dash)
	r.ask(handler, "GET", "/", "")
	r.ask(handler, "GET", "/", "", basic("alice", "correct horse")...)
	require.NotContains(t, r.log.String(), "refused", "a browser asks without a password first")
	r.ask(handler, "GET", "/", "", basic("alice", "S3cr3tGuess")...)
	require.Contains(t, r.log.String(), `"msg":"login refused","user":"alice","remote":"192.0.2.1:1234"`)
	r.ask(handler, "GET", "/", "", basic("x\u202e"+strings.Repeat("y", 500), "guess")...)
	require.Contains(t, r.log.String(), `"user":"x\\u202eyyy`)
	require.NotContains(t, r.log.String(), strings.Repeat("y", 200))
	require.NotContains(t, r.log.String(), "S3cr3tGuess")
}

func hashed(t *testing.T, password string, cost int) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	require.NoError(t, err)
	return string(hash)
}

func TestTheTimeOfARefusedLoginDoesNotTellWhoIsAUser(t *testing.T) {
	t.Parallel()
	users := NewUsers()
	require.NoError(t, users.Add("costly", strings.NewReader(hashed(t, "x", 7)), false))
	require.NoError(t, users.Add("cheap", strings.NewReader(hashed(t, "x", bcrypt.MinCost)), false))
	require.NoError(t, users.Add("sum", strings.NewReader(fmt.Sprintf("%x", sha256.Sum256([]byte("x")))), false))
	work := 0 // each step of the cost doubles the time
	users.compare = func(hash, password []byte) error {
		cost, err := bcrypt.Cost(hash)
		require.NoError(t, err)
		work += 1 << cost
		return bcrypt.CompareHashAndPassword(hash, password)
	}
	for _, name := range []string{"costly", "cheap", "sum", "nobody"} {
		work = 0
		_, found := users.check(t.Context(), "here", name, "wrong")
		require.False(t, found)
		// The costs from that of a cheap hash up to the highest add up to the highest.
		require.Equal(t, 1<<7, work, name)
	}
}

func TestGuessesDelayNoLogin(t *testing.T) {
	t.Parallel()
	const guessers = 120
	for _, from := range []string{"198.51.100.1", "192.0.2.1"} { // from elsewhere, and from the address of the guessers
		users := someUsers(t)
		turns := &users.hashing
		for range 2 { // all of them
			require.True(t, turns.take(t.Context(), "busy"))
		}
		waiting := func(n int) {
			drivertest.Eventually(t, func() bool {
				turns.mutex.Lock()
				defer turns.mutex.Unlock()
				return len(turns.waiting["192.0.2.1"])+len(turns.waiting["198.51.100.1"]) == n
			}, 30*time.Second, time.Millisecond)
		}
		var refused atomic.Int64
		var guesses sync.WaitGroup
		for n := range guessers {
			guesses.Go(func() {
				_, found := users.check(context.Background(), "192.0.2.1", "alice", fmt.Sprint(n))
				refused.Add(1)
				assert.False(t, found)
			})
		}
		waiting(guessers)
		admitted := make(chan int64)
		go func() {
			_, found := users.check(context.Background(), from, "alice", "correct horse")
			before := refused.Load()
			assert.True(t, found)
			admitted <- before
		}()
		waiting(guessers + 1)
		turns.pass()
		require.LessOrEqual(t, <-admitted, int64(2*patience), "guesses before the login from %s", from)
		turns.pass()
		guesses.Wait()
	}
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

func TestAUserHasOneRole(t *testing.T) {
	t.Parallel()
	users := NewUsers()
	line := fmt.Sprintf("%x", sha256.Sum256([]byte("x")))
	require.NoError(t, users.Add("alice", strings.NewReader(line), true))
	require.ErrorContains(t, users.Add("alice", strings.NewReader(line), false), "user alice was added before")
	who, found := users.check(t.Context(), "", "alice", "x")
	require.True(t, found)
	require.True(t, who.viewer)
}

func TestListenNeedsUsersBeyondLoopback(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		for _, none := range []*Users{nil, NewUsers()} {
			_, err := Listen(addr, none)
			require.ErrorIs(t, err, ErrNoUsers, addr)
		}
		listener, err := Listen(addr, someUsers(t))
		require.NoError(t, err)
		require.NoError(t, listener.Close())
	}
	listener, err := Listen("127.0.0.1:0", nil)
	require.NoError(t, err)
	require.NoError(t, listener.Close())
}
