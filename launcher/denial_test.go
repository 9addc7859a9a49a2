package launcher_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// order sends the server a command by a connection of its own, past whatever the rig's password is.
func order(t *testing.T, open func(url string) (driver.Client, error), url string, words ...string) {
	t.Helper()
	client, err := open(url)
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	require.NoError(t, client.Do(t.Context(), driver.Command(words...))[0].Err)
}

// A worker that Redis does not let in says why, and ends at once: no waiting gives it a password.
func TestAWorkerWithoutTheRightPasswordDoesNotStart(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t, "--requirepass", "right")
	order(t, openers["go-redis"], "redis://:right@"+server.Addr(), "ACL", "SETUSER", "tight", "on", ">tight", "~*", "+ping")
	const noPassword = "this Redis has no password"
	for name, open := range openers {
		for url, part := range map[string]string{
			"redis://" + server.Addr():                                                     "this Redis wants a password",
			"redis://:s3cret@" + server.Addr():                                             "the user or the password in the Redis URL is wrong",
			"redis://unknown:s3cret@" + server.Addr():                                      "the user or the password in the Redis URL is wrong",
			"redis://tight:tight@" + server.Addr():                                         "permit it to the Redis user",
			"redis://:s3cret@" + strings.TrimPrefix(drivertest.Redis(t).URL(), "redis://"): noPassword,
		} {
			if name == "go-redis" && part == noPassword {
				continue // it works without
			}
			r := newRig(t, open, url, drivertest.Prefix(t))
			done := make(chan error, 1)
			l := r.build(r.config())
			go func() { done <- l.Run(context.Background()) }()
			err := receive(t, "the end with "+name+" "+part, done)
			require.ErrorContains(t, err, part, name)
			require.NotContains(t, err.Error()+r.log.String(), "s3cret")
		}
	}
}

// A password that is changed under a running worker costs no job and no run: it tries again and again, says
// so as an error, is not ready meanwhile, and goes on as soon as its password is right.
func TestAPasswordThatIsRotatedIsAnErrorUntilItIsRightAgain(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{"a password": "s3cret", "no password": ""} {
		for driverName, open := range openers {
			t.Run(name+"/"+driverName, func(t *testing.T) {
				t.Parallel()
				server := drivertest.Start(t, "--requirepass", before)
				login := ""
				if before != "" {
					login = ":" + before + "@"
				}
				r := newRig(t, open, "redis://"+login+server.Addr(), drivertest.Prefix(t))
				g, err := launcher.New(r.config())
				require.NoError(t, err)
				began, goOn, ran := make(chan bool, 1), make(chan bool), make(chan bool, 9)
				g.Handle("Long", func(ctx context.Context, _ *job.Job) error {
					began <- true
					<-goOn
					ran <- ctx.Err() == nil
					return nil
				}, launcher.Class{})
				r.push("Long", "[]")
				r.startJudged(g)
				receive(t, "the start", began)
				r.awaitReady(g, "")

				order(t, open, "redis://"+login+server.Addr(), "CONFIG", "SET", "requirepass", "other")
				order(t, open, "redis://:other@"+server.Addr(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				r.awaitReady(g, "access_denied")
				found := g.Alive(t.Context())
				require.True(t, found.OK, "a new process would have no better one")
				require.Equal(t, "access_denied", found.Reason)
				require.Contains(t, found.Detail, "password")
				r.eventually("the error", func() bool { return strings.Contains(r.log.String(), "redis denies access") })
				goOn <- true
				require.True(t, receive(t, "the end of the run", ran), "handlers run on")

				order(t, open, "redis://:other@"+server.Addr(), "CONFIG", "SET", "requirepass", before)
				r.awaitReady(g, "")
				r.eventually("the job to be settled", func() bool {
					reply := r.client.Do(t.Context(), driver.Command("GET", r.keys.Processed()))[0]
					return reply.Value == "1"
				})
				require.Empty(t, ran, "it ran twice")
				require.Equal(t, 1, strings.Count(r.log.String(), "redis denies access"), r.log.String())
				require.Contains(t, r.log.String(), `"level":"error"`)
				require.Contains(t, r.log.String(), `"advice":"`)
				require.NotContains(t, r.log.String(), "s3cret")
			})
		}
	}
}
