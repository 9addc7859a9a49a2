package belay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/check"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
)

// An admitted server is one whose Redis user has the permissions of a worker.
type admitted struct {
	t      *testing.T
	redis  *drivertest.Server
	server *belay.Server
	client *belay.Client // its own
	log    drivertest.Buffer
}

// admit makes a server whose user may do what workers do, but not one command.
func admit(t *testing.T, open adapters.Opener, without string, cfg belay.ServerConfig) *admitted {
	t.Helper()
	a := &admitted{t: t, redis: drivertest.Start(t)}
	a.grant()
	if without != "" {
		a.do("ACL", "SETUSER", "worker", "-"+without)
	}
	client, err := belay.NewClient(open(t, "redis://worker:S3cr3tCanary@"+a.redis.Addr()), &belay.ClientConfig{Prefix: "app"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	cfg.Logger = belay.Zerolog(zerolog.New(&a.log))
	a.client, a.server = client, newServer(t, client, cfg)
	return a
}

// grant lets the user do all that workers do.
func (a *admitted) grant() {
	a.t.Helper()
	rule, err := check.Rule(check.RoleWorker, "worker", check.Config{Prefix: "app"})
	require.NoError(a.t, err)
	a.do(append(strings.Fields(rule), ">S3cr3tCanary")...)
}

func (a *admitted) do(words ...string) any {
	a.t.Helper()
	value, err := a.redis.Do(context.WithoutCancel(a.t.Context()), words...)
	require.NoError(a.t, err)
	return value
}

func (a *admitted) awaitReady(status int, reason string) {
	a.t.Helper()
	drivertest.Eventually(a.t, func() bool {
		code, why := readyAt(a.t, a.server)
		return code == status && why == reason
	}, patience, tick)
}

// A server whose user lacks a permission that every worker needs says at its start which one, and the rule, and
// does not begin. With WaitForRedis it says so too, and waits.
func TestAServerWithoutAPermissionDoesNotStart(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		for _, command := range []string{"lmove", "zadd", "zremrangebyrank", "evalsha", "time"} {
			t.Run(command, func(t *testing.T) {
				t.Parallel()
				a := admit(t, open, command, belay.ServerConfig{})
				a.server.HandleRaw("Any", idle)
				err := awaitValue(t, "the end", running(t, a.server))
				require.ErrorContains(t, err, command)
				require.ErrorContains(t, err, "permit it to the Redis user")
				if command != "evalsha" { // then nothing can ask for the rest
					require.ErrorContains(t, err, "ACL SETUSER worker +"+command)
				}
				require.NotContains(t, err.Error()+a.log.String(), "S3cr3tCanary")
				require.Equal(t, int64(0), a.do("DBSIZE"), "it has begun nothing")
			})
		}
		t.Run("unless it is to wait", func(t *testing.T) {
			t.Parallel()
			a := admit(t, open, "lmove", belay.ServerConfig{WaitForRedis: true})
			ran := make(chan bool, 1)
			a.server.HandleRaw("Any", func(context.Context, *belay.Job) error { ran <- true; return nil })
			running(t, a.server)
			a.awaitReady(http.StatusServiceUnavailable, "access_denied")
			a.do("LPUSH", "app:queue:default", `{"class":"Any","args":[],"jid":"1","queue":"default"}`)
			require.Equal(t, 1, strings.Count(a.log.String(), "redis denies access"), a.log.String())
			a.grant()
			awaitValue(t, "the run", ran)
			a.awaitReady(http.StatusOK, "")
			require.NotContains(t, a.log.String(), "S3cr3tCanary")
		})
	})
}

// A server with a wrong password ends, and one with WaitForRedis waits until it is right.
func TestAServerWaitsForThePasswordIfItIsTold(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		a := admit(t, open, "", belay.ServerConfig{WaitForRedis: true})
		a.do("ACL", "SETUSER", "worker", "resetpass", ">other")
		a.server.HandleRaw("Any", idle)
		running(t, a.server)
		a.awaitReady(http.StatusServiceUnavailable, "access_denied")
		a.do("ACL", "SETUSER", "worker", "resetpass", ">S3cr3tCanary")
		a.awaitReady(http.StatusOK, "")
		require.Equal(t, 1, strings.Count(a.log.String(), "redis denies access"), a.log.String())
		require.NotContains(t, a.log.String(), "S3cr3tCanary")
	})
}

// A user that loses all its permissions and its password while jobs run, and gets them back: no job is lost, none
// runs twice, and the server says that it is not ready meanwhile.
func TestAUserThatIsResetStopsNothingForLong(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		a := admit(t, open, "", belay.ServerConfig{Concurrency: 4, Heartbeat: 100 * time.Millisecond, TTL: time.Second})
		var mu sync.Mutex
		runs, goOn := map[string]int{}, make(chan struct{})
		began := make(chan string, 100)
		a.server.HandleRaw("Any", func(ctx context.Context, j *belay.Job) error {
			mu.Lock()
			runs[j.JID()]++
			mu.Unlock()
			began <- j.JID()
			<-goOn
			return ctx.Err()
		})
		const jobs = 12
		for i := range jobs {
			_, err := a.client.Push(t.Context(), belay.RawJob{Class: "Any", JID: fmt.Sprintf("%024d", i)})
			require.NoError(t, err)
		}
		running(t, a.server)
		for range 4 {
			awaitValue(t, "a run", began)
		}
		begun := time.Now()
		a.do("ACL", "SETUSER", "worker", "reset")
		a.awaitReady(http.StatusServiceUnavailable, "access_denied")
		drivertest.Eventually(t, func() bool { return strings.Contains(a.log.String(), "redis denies access") }, patience, tick)
		close(goOn) // they end, and cannot be settled
		time.Sleep(3 * time.Second)
		a.awaitReady(http.StatusServiceUnavailable, "access_denied") // still, and not only at first

		a.grant()
		a.awaitReady(http.StatusOK, "")
		drivertest.Eventually(t, func() bool { return a.do("GET", "app:stat:processed") == fmt.Sprint(jobs) }, patience, tick)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, runs, jobs)
		for jid, n := range runs {
			require.Equal(t, 1, n, "runs of %s: %s", jid, a.log.String())
		}
		require.Equal(t, int64(0), a.do("EXISTS", "app:retry", "app:dead", "app:queue:default"))
		denials := map[string]int{} // by what was denied
		for line := range strings.Lines(a.log.String()) {
			var entry struct{ Message, Call string }
			require.NoError(t, json.Unmarshal([]byte(line), &entry))
			if entry.Message == "redis denies access; will retry; operator action required" {
				denials[entry.Call]++
			}
		}
		for call, n := range denials {
			require.LessOrEqual(t, n, 1+int(time.Since(begun)/time.Minute), "%s is logged once a minute: %s", call, a.log.String())
		}
		require.NotContains(t, a.log.String(), "S3cr3tCanary")
	})
}

// A server that does not trust Redis' certificate ends with what to do, or waits until it does. One that trusts any
// certificate says so.
func TestAServerThatDoesNotTrustTheCertificateDoesNotStart(t *testing.T) {
	t.Parallel()
	right, other := drivertest.NewAuthority(t), drivertest.NewAuthority(t)
	cert, key := right.Issue(t, nil)
	_, addr := drivertest.StartTLS(t, right, cert, key)
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		start := func(query string, wait bool) (*belay.Server, <-chan error, *drivertest.Buffer) {
			client, err := belay.NewClient(open(t, "rediss://"+addr+query), nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, client.Close()) })
			log := &drivertest.Buffer{}
			server := newServer(t, client, belay.ServerConfig{Logger: belay.Zerolog(zerolog.New(log)), WaitForRedis: wait})
			server.HandleRaw("Any", idle)
			return server, running(t, server), log
		}
		_, done, _ := start("?ca="+other.File, false)
		require.ErrorContains(t, awaitValue(t, "the end", done), "give the authority by ca=FILE")

		file := filepath.Join(t.TempDir(), "ca.pem")
		copyFile(t, other.File, file)
		server, _, log := start("?ca="+file, true)
		reason := func(status int, want string) {
			t.Helper()
			drivertest.Eventually(t, func() bool {
				code, why := readyAt(t, server)
				return code == status && why == want
			}, patience, tick)
		}
		reason(http.StatusServiceUnavailable, "access_denied")
		denied := func() int { return strings.Count(log.String(), "redis denies access") }
		drivertest.Eventually(t, func() bool { return denied() > 0 }, patience, tick)
		require.Equal(t, 1, denied(), log.String())
		copyFile(t, right.File, file)
		reason(http.StatusOK, "")

		_, _, log = start("?skip_verify=true", false)
		drivertest.Eventually(t, func() bool { return strings.Contains(log.String(), "the certificate of Redis is not verified") }, patience, tick)
	})
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, text, 0o600))
}
