package driver

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		kind  Kind
		shown string
	}{
		"redis://h":             {KindServer, "redis://h:6379/0"},
		"redis://":              {KindServer, "redis://localhost:6379/0"},
		"valkey://h:1/":         {KindServer, "redis://h:1/0"},
		"valkeys://u:p%23@h/3/": {KindServer, "rediss://h:6379/3"},
		"redis://h/1?db=2":      {KindServer, "redis://h:6379/2"},
		"redis://[::1]:7?protocol=3&client_cache=1": {KindServer, "redis://[::1]:7/0"},
		"redis://[::1]":                              {KindServer, "redis://[::1]:6379/0"},
		"redis://[fe80::1%25eth0]:7":                 {KindServer, "redis://[fe80::1%25eth0]:7/0"},
		"unix:/a/b.sock?db=0":                        {KindServer, "unix:///a/b.sock"},
		"unix://u:p@/a?db=3&max_retries=-1":          {KindServer, "unix:///a?db=3"},
		"redis+sentinel://h1,h2:1,[::1]:2/main":      {KindSentinel, "redis+sentinel://h1:26379,h2:1,[::1]:2/main/0"},
		"rediss+sentinel://u:p,w@h1,[::1]/a%20b/3":   {KindSentinel, "rediss+sentinel://h1:26379,[::1]:26379/a%20b/3"},
		"valkey+sentinel://h1/main?db=4":             {KindSentinel, "redis+sentinel://h1:26379/main/4"},
		"redis://h1/2?master_set=m&addr=h2&addr=h:1": {KindSentinel, "redis+sentinel://h1:26379,h2:26379,h:1/m/2"},
		"redis+cluster://:p@h1:7000,h2":              {KindCluster, "redis+cluster://h1:7000,h2:6379/0"},
		"valkeys+cluster://h1":                       {KindCluster, "rediss+cluster://h1:6379/0"},
	} {
		u, err := ParseURL(text, ForPrefix("{shop}"))
		require.NoError(t, err, text)
		require.Equal(t, want.kind, u.Kind, text)
		require.Equal(t, want.shown, u.String(), text)
	}
	u, err := ParseURL("redis://me:p%23@h?dial_timeout=1&client_name=a%20b&pool_size=5&max_retries=9")
	require.NoError(t, err)
	require.Equal(t, time.Second, u.DialTimeout)
	require.Equal(t, "a b", u.ClientName)
	require.Equal(t, "pool_size=5", u.Pool.Encode())
	user, password, err := u.Credentials()
	require.NoError(t, err)
	require.Equal(t, []string{"me", "p#"}, []string{user, password})
}

// The password of a URL's file is that of the moment in which a connection is made, and errors show no file.
func TestPasswordsComeFromFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	u, err := ParseURL("redis+sentinel://me@h/main?password_file=" + file + "&sentinel_user=s&sentinel_password_file=" + file)
	require.NoError(t, err)
	for _, read := range []Credentials{u.Credentials, u.SentinelCredentials, u.Node("h:1").Credentials} {
		_, _, err = read()
		require.Contains(t, Denial(err), "password_file")
		require.True(t, Outage(err), "the file may come")
		require.NotContains(t, err.Error(), file)
	}
	for _, password := range []string{"one", "two and more "} {
		require.NoError(t, os.WriteFile(file, []byte(password+"\r\n"), 0o600))
		user, got, err := u.Credentials()
		require.NoError(t, err)
		require.Equal(t, []string{"me", password}, []string{user, got})
		user, got, err = u.Node("h:1").Credentials()
		require.NoError(t, err)
		require.Equal(t, []string{"s", password}, []string{user, got})
	}
	require.NoError(t, os.WriteFile(file, []byte("\n"), 0o600))
	_, _, err = u.Credentials()
	require.ErrorContains(t, err, "empty")
}

// An error for a password with special characters names the characters, and not databases.
func TestParseURLGivesAdvice(t *testing.T) {
	t.Parallel()
	for text, advice := range map[string]string{
		"redis://:p@ss/w:rd#x@h":               "percent-encode special characters in the password",
		"redis://:12/34@h":                     "percent-encode special characters in the password",
		"redis:prod-host:6399/5":               "lacks the //",
		"redis:secret7@host":                   "lacks the //",
		"localhost:6379":                       "it should look like redis://host:port/db",
		"redis://h?password=x":                 "user and password go before the host",
		"redis://h/-1":                         "0 or more",
		"unix://relative/redis.so":             "unix:///path/to/redis.sock",
		"redis://h1,h2":                        "redis+sentinel or redis+cluster",
		"redis+sentinel://h1,h2":               "lacks the name of the primary",
		"redis+sentinel://h1,,h2/main":         "host that cannot be parsed",
		"redis+sentinel://h1,::1/main":         "host that cannot be parsed",
		"redis+sentinel://h1,h2:x/main":        "host that cannot be parsed",
		"redis+cluster://h1":                   "hash tag, such as {shop}",
		"redis+other://h1":                     "+sentinel or +cluster",
		"unix+sentinel:///a":                   "+sentinel or +cluster",
		"redis://h?ca=/f":                      "needs TLS",
		"redis://h?sentinel_password_file=/f":  "needs sentinels",
		"redis+sentinel://h/m?sentinel_user=u": "sentinel_user without a sentinel_password_file",
		"rediss://h?cert=/f":                   "only one of cert and key",
		"redis://:p@h?password_file=/f":        "both a password and a password_file",
		"redis://h?addr=h2":                    "needs sentinels",
		"redis://h?password_file=":             "without a value",
		"unix:///a?master_set=m":               "needs sentinels",
	} {
		_, err := ParseURL(text)
		require.ErrorContains(t, err, advice, text)
	}
	for _, prefix := range []string{"", "shop", "{}", "{}{shop}", "{shop", "}shop{"} {
		_, err := ParseURL("redis+cluster://h", ForPrefix(prefix))
		require.ErrorContains(t, err, "hash tag", prefix)
	}
	_, err := Structure("redis:secret7@host")
	require.Error(t, err)
	_, err = Structure("redis+sentinel://h,h2/x?password=hidden-by-others")
	require.NoError(t, err)
}
