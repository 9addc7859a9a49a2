package driver_test

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
)

func TestOnlyARedisKnownToBeOldIsRefused(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		for _, version := range []string{"5.0.14", "6.2.14"} { // the first has no HELLO
			got, err := driver.CheckVersion(t.Context(), open(t, drivertest.Older(t, version)))
			var old *driver.OldServerError
			require.ErrorAs(t, err, &old)
			require.Equal(t, version, got)
			require.ErrorContains(t, err, "Redis "+version+", and Belay needs Redis 7.0 or newer")
			require.False(t, driver.Outage(err), "waiting does not cure it")
		}
		for _, version := range []string{"7.0.0", "10.2.1"} {
			got, err := driver.CheckVersion(t.Context(), open(t, drivertest.Older(t, version)))
			require.NoError(t, err)
			require.Equal(t, version, got)
		}
		embedded := miniredis.RunT(t)
		_, err := driver.CheckVersion(t.Context(), open(t, "redis://"+embedded.Addr()))
		require.NoError(t, err, "miniredis has no version")
	})
	require.False(t, driver.OldVersion(""))
	require.False(t, driver.OldVersion("unstable"))
}

// A user without INFO is served, and asking for the version adds nothing to the ACL LOG.
func TestTheVersionIsReadWithoutAnyPermission(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t)
	_, err := redis.Do(t.Context(), "ACL", "SETUSER", "worker", "reset", "on", ">secret", "~*", "+ping")
	require.NoError(t, err)
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		version, err := driver.CheckVersion(t.Context(), open(t, strings.Replace(redis.URL(), "://", "://worker:secret@", 1)))
		require.NoError(t, err)
		require.Regexp(t, `^\d+\.\d+`, version)
		log, err := redis.Do(t.Context(), "ACL", "LOG")
		require.NoError(t, err)
		require.Empty(t, log)
	})
}

func TestTheVersionOfNoServerIsItsError(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		_, err := driver.CheckVersion(t.Context(), open(t, "redis://127.0.0.1:1"))
		require.True(t, driver.Outage(err), "%v", err)
	})
}
