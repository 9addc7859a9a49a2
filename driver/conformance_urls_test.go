package driver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
)

var urlPromises = []promise{
	{name: "urls_are_read_alike_by_all_adapters", keep: urlsAreReadAlike, anyKind: true},
	{name: "a_client_names_its_server_and_no_password", keep: serversAreNamed, anyKind: true},
}

func serversAreNamed(t *testing.T, w *world) {
	for url, want := range map[string]string{
		"redis://me:" + canary + "@h:1/3?client_name=" + canary: "redis://h:1/3",
		"rediss://:" + canary + "@[::1]:6379":                   "rediss://[::1]:6379/0",
		"unix://:" + canary + "@/run/redis.sock?db=3":           "unix:///run/redis.sock?db=3",
		"redis://h": "redis://h:6379/0",
	} {
		client, err := w.maker(url)
		require.NoError(t, err)
		named, ok := client.(interface{ Server() string })
		require.True(t, ok, "%T", client)
		require.Equal(t, want, named.Server())
		require.NoError(t, client.Close())
	}
}

// urlsAreReadAlike checks which URLs all adapters accept and refuse.
func urlsAreReadAlike(t *testing.T, w *world) {
	addr := w.addr(t)
	for _, url := range []string{
		"redis://" + addr, "redis://" + addr + "/", "redis://" + addr + "/0", "redis://" + addr + "/3", "valkey://" + addr + "/2",
		"redis://" + addr + "/1?db=2", "redis://" + addr + "?db=1&dial_timeout=1s", "redis://" + addr + "?dial_timeout=1&client_name=me",
		"redis://" + addr + "/?protocol=3&max_retries=5&read_timeout=3s&write_timeout=1s",
		"redis://" + addr + "?client_name=me@here", "redis://" + addr + "/1?pool_size=5&min_idle_conns=1&conn_max_idle_time=1m&min_retry_backoff=1s",
	} {
		client, err := w.maker(url)
		require.NoError(t, err, url)
		require.Equal(t, []driver.Reply{{Value: "PONG"}}, client.Do(t.Context(), driver.Command("PING")), url)
		require.NoError(t, client.Close())
	}
	for _, url := range []string{
		"", addr, "redis:" + addr + "/5", "redis:" + canary + "@" + addr, "redis:/" + addr, "redis:", "http://" + addr, "unix:sock", "unix://sock", "unix:///",
		"redis://" + addr + "/-1", "redis://" + addr + "/+1", "redis://" + addr + "/x", "redis://" + addr + "/0/1", "redis://" + addr + "?db=-1", "redis://" + addr + "?db=",
		"redis://" + addr + "?db=1&db=2", "redis://" + addr + "?nosuch=1", "redis://" + addr + "?password=" + canary, "redis://" + addr + "?dial_timeout=soon",
		"redis://" + addr + "?skip_verify=true", "rediss://" + addr + "?skip_verify", "rediss://" + addr + "?skip_verify=maybe", "redis://" + addr + "?a=%zz",
		"redis://:p@ss/w:rd#x@" + addr, "redis://:a/b@" + addr,
	} {
		client, err := w.maker(url)
		if err == nil {
			_ = client.Close()
		}
		require.Error(t, err, url)
		require.ErrorContains(t, err, "the Redis URL", url)
		require.NotContains(t, err.Error(), canary)
	}
	for _, url := range []string{"rediss://h", "valkeys://h:1/2", "rediss://h?skip_verify=true", "unix:///sock", "unix:/sock?db=3", "unix://:p@/sock", "redis://[::1]:1/", "redis://"} {
		client, err := w.maker(url)
		require.NoError(t, err, url)
		require.NoError(t, client.Close())
	}
}
