package drivertest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestServer(t *testing.T) {
	t.Parallel()
	t.Run("is_shared", func(t *testing.T) {
		t.Parallel()
		first, second := Redis(t), Redis(t)
		require.Same(t, first, second)
		mine, yours := Prefix(t), Prefix(t)
		require.NotEqual(t, mine, yours)
		value, err := Redis(t).Do(t.Context(), "ECHO", "hello")
		require.NoError(t, err)
		require.Equal(t, "hello", value)
	})
	t.Run("takes_arguments_and_keeps_its_address", func(t *testing.T) {
		t.Parallel()
		server := Start(t, "--maxclients", "77")
		addr := server.Addr()
		for range 2 {
			value, err := server.Do(t.Context(), "CONFIG", "GET", "maxclients")
			require.NoError(t, err)
			require.Equal(t, []any{"maxclients", "77"}, value)
			server.Restart(t)
			require.Equal(t, addr, server.Addr())
		}
	})
	t.Run("stops_and_goes_on", func(t *testing.T) {
		t.Parallel()
		server := Start(t)
		server.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := server.Do(ctx, "PING")
		require.Error(t, err)
		server.Cont()
		value, err := server.Do(t.Context(), "PING")
		require.NoError(t, err)
		require.Equal(t, "PONG", value)
	})
	t.Run("is_gone_when_killed", func(t *testing.T) {
		t.Parallel()
		server := Start(t)
		server.Kill()
		server.Kill()
		_, err := server.Do(t.Context(), "PING")
		require.Error(t, err)
	})
	t.Run("gives_an_error_reply_as_an_error", func(t *testing.T) {
		t.Parallel()
		_, err := Redis(t).Do(t.Context(), "NOSUCH")
		require.ErrorContains(t, err, "unknown command")
	})
	t.Run("that_cannot_start_says_why", func(t *testing.T) {
		t.Parallel()
		_, err := launch(form{dir: t.TempDir(), args: []string{"--no-such-option", "1"}})
		require.ErrorContains(t, err, "no-such-option")
	})
	t.Run("has_a_port_that_no_other_test_gets", func(t *testing.T) {
		t.Parallel()
		const many = 1000 // without reservations, about twenty of them would be the same
		seen := map[string]bool{}
		for range many {
			seen[FreeAddr(t)] = true
		}
		require.Len(t, seen, many)
	})
}
