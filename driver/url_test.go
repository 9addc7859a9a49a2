package driver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseURLNormalizes(t *testing.T) {
	t.Parallel()
	for text, same := range map[string]string{
		"redis://h":                         "redis://h/0",
		"valkey://h:1/":                     "redis://h:1/0",
		"valkeys://u:p%23@h/3/":             "rediss://u:p%23@h/3",
		"redis://h/1?db=2":                  "redis://h/2",
		"redis://[::1]:7?protocol=3":        "redis://[::1]:7/0",
		"redis://h?dial_timeout=2":          "redis://h/0?dial_timeout=2s",
		"rediss://h?skip_verify=1&x=a&x=b":  "rediss://h/0?skip_verify=true&x=a&x=b",
		"unix:/a/b.sock?db=0":               "unix:/a/b.sock",
		"unix://u:p@/a?db=3&max_retries=-1": "unix://u:p@/a?db=3",
	} {
		parsed, err := ParseURL(text, "x")
		require.NoError(t, err, text)
		require.Equal(t, same, parsed.String(), text)
	}
}

// An error for a password with special characters names the characters, and not databases.
func TestParseURLGivesAdvice(t *testing.T) {
	t.Parallel()
	for text, advice := range map[string]string{
		"redis://:p@ss/w:rd#x@h":   "percent-encode special characters in the password",
		"redis://:12/34@h":         "percent-encode special characters in the password",
		"redis:prod-host:6399/5":   "lacks the //",
		"redis:secret7@host":       "lacks the //",
		"localhost:6379":           "it should look like redis://host:port/db",
		"redis://h?password=x":     "user and password go before the host",
		"redis://h/-1":             "0 or more",
		"unix://relative/redis.so": "unix:///path/to/redis.sock",
	} {
		_, err := ParseURL(text)
		require.ErrorContains(t, err, advice, text)
	}
	require.Error(t, CheckURL("redis:secret7@host"))
	require.NoError(t, CheckURL("redis://h/x?password=hidden-by-others"))
}
