package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// A password that is wrong or missing, and a user without permissions, end every command at once, with what to
// do; so do belay work, web and top, which wait for a Redis that is only away.
func TestEveryCommandThatRedisDeniesSaysWhatToDo(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t, "--requirepass", "right")
	admin := drivertest.Start(t)
	_, err := admin.Do(t.Context(), "ACL", "SETUSER", "tight", "on", ">S3cr3tCanary", "~*", "+ping", "+select", "+time")
	require.NoError(t, err)
	for url, part := range map[string]string{
		"redis://:S3cr3tCanary@" + redis.Addr():       "password",
		"redis://nobody:S3cr3tCanary@" + redis.Addr(): "password",
		"redis://" + redis.Addr():                     "password",
		"redis://tight:S3cr3tCanary@" + admin.Addr():  "permit it to the Redis user",
	} {
		for _, client := range []string{"go-redis", "rueidis"} {
			for _, line := range []string{
				"push A 1", "status", "find 1", "list dead", "queues", "processes", "locks", "periodic", "periodic run nightly", "classes",
				"dead retry --all", "cancel 1", "queues pause mail", "web --addr 127.0.0.1:0", "work --exec A=true",
			} {
				got := invoke("", append(strings.Fields(line), "--redis", url, "--client", client)...)
				require.Equal(t, exitFailure, got.code, "%s: %s", line, got.errs)
				require.Contains(t, got.errs, part, line)
				require.NotContains(t, got.out+got.errs, "S3cr3tCanary", line)
				require.NotContains(t, got.errs, "is Redis running there", line)
			}
			got := invoke("", "check", "--redis", url, "--client", client)
			require.Equal(t, exitFailure, got.code)
			require.Contains(t, got.out, "-> ")
			require.NotContains(t, got.out+got.errs, "S3cr3tCanary")
		}
	}
}
