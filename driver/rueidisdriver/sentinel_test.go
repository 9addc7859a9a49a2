package rueidisdriver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/relay"
)

// A fakeSentinel answers each of its connections with the same bytes once it has been asked, or never if
// there are none. It notes what it was asked.
type fakeSentinel struct {
	addr  string
	mu    sync.Mutex
	reply string
	asks  int
}

func newFakeSentinel(t *testing.T, answer string) *fakeSentinel {
	t.Helper()
	s := &fakeSentinel{reply: answer}
	s.addr = relay.Serve(t, s.serve).Addr()
	return s
}

func (s *fakeSentinel) serve(conn net.Conn) {
	for words := bufio.NewScanner(conn); words.Scan(); {
		if words.Text() == "2" { // the last word of HELLO, by which a connection begins
			_, _ = io.WriteString(conn, "*0\r\n")
		}
		if !strings.EqualFold(words.Text(), "m") && !strings.EqualFold(words.Text(), "secret") { // the last word
			continue
		}
		s.mu.Lock()
		s.asks++
		answer := s.reply
		s.mu.Unlock()
		if words.Text() == "secret" {
			answer = "+OK\r\n"
		}
		_, _ = io.WriteString(conn, answer)
	}
}

func (s *fakeSentinel) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asks
}

func (s *fakeSentinel) answer(with string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reply = with
}

// named is how a sentinel names a primary.
func named(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	return fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port)
}

func watched(t *testing.T, sentinels ...*fakeSentinel) *Client {
	t.Helper()
	options := rueidis.ClientOption{Sentinel: rueidis.SentinelOption{MasterSet: "m"}}
	for _, s := range sentinels {
		options.InitAddress = append(options.InitAddress, s.addr)
	}
	client, err := New(options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// Each connection is dialled to the primary of that moment, whichever sentinel can tell.
func TestSentinelsAreAskedAtEveryDial(t *testing.T) {
	t.Parallel()
	redis := drivertest.Redis(t)
	const unknown, odd = "*-1\r\n", "$5\r\nhello\r\n"

	t.Run("for_a_connection_a_lane_and_a_waiter", func(t *testing.T) {
		t.Parallel()
		s, p := newFakeSentinel(t, named(redis.Addr())), drivertest.Prefix(t)
		client := watched(t, s)
		require.Zero(t, s.asked(), "nothing is dialled before it is needed")
		require.NoError(t, client.Do(t.Context(), driver.Command("LPUSH", p+"from", "job"))[0].Err)
		lane, err := client.Lane(1)
		require.NoError(t, err)
		defer func() { require.NoError(t, lane.Close()) }()
		waiter, err := lane.Waiter()
		require.NoError(t, err)
		defer func() { require.NoError(t, waiter.Close()) }()
		payload, ok, err := waiter.Wait(t.Context(), p+"from", p+"to", time.Second)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "job", payload)
		require.Equal(t, 2, s.asked())
	})

	for name, bad := range map[string]string{"knows_no_such_primary": unknown, "is_none": odd, "refuses": "-NOAUTH no\r\n", "is_silent": ""} {
		t.Run("and_another_one_where_the_first_"+name, func(t *testing.T) {
			t.Parallel()
			first, second := newFakeSentinel(t, bad), newFakeSentinel(t, named(redis.Addr()))
			client := watched(t, first, second)
			for range 3 {
				require.NoError(t, client.Do(t.Context(), driver.Command("PING"))[0].Err)
				client.replace(client.link.generation(), client.redis.B().Ping().Build()) // as after a failure
			}
			require.Equal(t, 1, first.asked(), "the one that answered is asked first from then on")
			require.Equal(t, 3, second.asked())
		})
	}

	t.Run("and_where_none_can_tell_nothing_was_sent", func(t *testing.T) {
		t.Parallel()
		s := newFakeSentinel(t, unknown)
		client := watched(t, s)
		err := client.Do(t.Context(), driver.Command("PING"))[0].Err
		require.ErrorContains(t, err, "find the primary m by its sentinels")
		require.True(t, driver.Certain(err))
		require.True(t, driver.Outage(err), "it may come back")
		s.answer(named(redis.Addr()))
		require.NoError(t, client.Do(t.Context(), driver.Command("PING"))[0].Err)
	})

	t.Run("with_a_password_of_their_own", func(t *testing.T) {
		t.Parallel()
		s := newFakeSentinel(t, named(redis.Addr()))
		client, err := New(rueidis.ClientOption{InitAddress: []string{s.addr}, Sentinel: rueidis.SentinelOption{MasterSet: "m", Username: "u", Password: "secret"}})
		require.NoError(t, err)
		defer func() { require.NoError(t, client.Close()) }()
		require.NoError(t, client.Do(t.Context(), driver.Command("PING"))[0].Err)
		require.Equal(t, 2, s.asked())
	})
}
