package integration

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/rueidisdriver"
	"github.com/belayq/belay/internal/drivertest"
)

// limitedSite is a site whose server accepts so many connections at once. The test has one of them, which order
// uses: it may not get another.
func limitedSite(t *testing.T, client string, connections int) (s *site, order func(words ...string) any, book *ledger) {
	t.Helper()
	server := drivertest.Start(t, "--maxclients", strconv.Itoa(connections))
	s = newSite(t, server)
	s.client = client
	admin, err := rueidisdriver.Open(server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = admin.Close() })
	order = func(words ...string) any {
		t.Helper()
		reply := admin.Do(t.Context(), driver.Command(words...))[0]
		require.NoError(t, reply.Err)
		return reply.Value
	}
	order("PING")
	return s, order, newLedger(t)
}

// A server that accepts fewer connections than a worker would like: its idle waits are the first to do without.
func TestIdleWaitsStarveNoHeartbeat(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			s, order, book := limitedSite(t, client, 20)
			words := []string{"-c", "4", "--heartbeat", "300ms", "--health-addr", "127.0.0.1:0", "--exec", book.exec("Any")}
			for n := range 18 {
				words = append(words, "-q", fmt.Sprint("q", n))
			}
			worker := s.work(words...)
			identity := worker.identities()[0]
			for range 2 {
				order("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				time.Sleep(1500 * time.Millisecond) // in which waits and vitals compete for 20 connections
			}
			alive := func() bool {
				text, _ := order("ZSCORE", s.keys.Alive(), identity).(string)
				expiry, _ := strconv.ParseFloat(text, 64)
				return time.UnixMilli(int64(expiry)).After(time.Now())
			}
			killed := time.Now()
			eventually(t, "a heartbeat", alive)
			t.Logf("alive %v after the second kill", time.Since(killed))
			for n := range 18 {
				order("LPUSH", s.keys.Queue(fmt.Sprint("q", n)), rubyPayload("Any", fmt.Sprint("q", n), jsonArgs(n, 0), newJID()))
			}
			// The poller needs a connection, too.
			order("ZADD", s.keys.Schedule(), "1", rubyPayload("Any", "q0", jsonArgs(99, 0), newJID()))
			eventually(t, "all to be settled", func() bool { return order("GET", s.keys.Processed()) == "19" })
			require.Len(t, book.starts(""), 19, "each once")
			require.Contains(t, worker.log(), "max number of clients")
			address := regexp.MustCompile(`"address":"([^"]+)"`).FindStringSubmatch(worker.log())
			require.Len(t, address, 2)
			answer, err := http.Get("http://" + address[1] + "/healthz")
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusOK, answer.StatusCode)
			require.Equal(t, 1, strings.Count(worker.log(), `"working"`))
		})
	}
}

// Two workers that share too few connections get all their jobs done, if slowly.
func TestTwoWorkersShareTwelveConnections(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			s, order, book := limitedSite(t, client, 12)
			const jobs = 200
			for n := range jobs {
				order("LPUSH", s.keys.Queue("default"), rubyPayload("Any", "default", jsonArgs(n, 50), newJID()))
			}
			words := []string{"-c", "10", "--exec", book.exec("Any")}
			s.start(words...)
			s.start(words...)
			eventually(t, "all to be settled", func() bool { return order("GET", s.keys.Processed()) == strconv.Itoa(jobs) })
			require.Len(t, book.starts(""), jobs, "each once")
		})
	}
}
