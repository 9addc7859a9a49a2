package belay_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// The server that polls becomes quiet or stops, and a job is due a moment later: another server has taken its
// place already, instead of waiting for the end of its lease.
func TestTheNextPollerIsThereAtOnce(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(s *belay.Server){"quiet": (*belay.Server).Quiet, "stop": (*belay.Server).Stop} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := openShared(t)
			later, ran := belay.Define[struct{}]("Later"), make(chan time.Time, 1)
			const promised = 700 * time.Millisecond // a lease lasts for two seconds
			poller := func() string {
				holder, _ := client.Driver().Do(t.Context(), driver.Command("GET", lua.NewKeys(client.Config().Prefix).Poller()))[0].Value.(string)
				return holder
			}
			start := func() *belay.Server {
				server := newServer(t, client, belay.ServerConfig{})
				later.Handle(server, func(context.Context, struct{}) error {
					ran <- time.Now()
					return nil
				})
				running(t, server)
				return server
			}
			first := start()
			require.Eventually(t, func() bool { return poller() != "" }, patience, tick)
			start()
			time.Sleep(time.Second) // it stands by: it has asked once, and asks again in a second
			leave(first)
			dueAt := time.Now().Add(100 * time.Millisecond)
			_, err := later.Enqueue(t.Context(), client, struct{}{}, belay.At(dueAt))
			require.NoError(t, err)
			require.Less(t, awaitValue(t, "the job", ran).Sub(dueAt), promised)
		})
	}
}
