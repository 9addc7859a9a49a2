package launcher

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAHealthAnswerShowsNoAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ask redis: dial tcp 10.0.0.5:6379: connect: connection refused":                 "ask redis: dial tcp: connect: connection refused",
		"read tcp 10.0.0.1:5123->10.0.0.5:6379: read: connection reset by peer":          "read tcp: read: connection reset by peer",
		"write tcp [fd00::1]:5123->[fd00::2]:6379: write: broken pipe":                   "write tcp: write: broken pipe",
		"dial tcp [::1]:6379: i/o timeout":                                               "dial tcp: i/o timeout",
		"dial unix /run/redis/my redis.sock: connect: no such file or directory":         "dial unix: connect: no such file or directory",
		"dial tcp: lookup redis.internal on 10.0.0.2:53: no such host":                   "dial tcp: lookup: no such host",
		"dial tcp: lookup redis.internal: i/o timeout":                                   "dial tcp: lookup: i/o timeout",
		"MOVED 3999 10.0.0.7:6381":                                                       "MOVED 3999 (address)",
		"sentinel redis-1.internal:26379 answers nothing":                                "sentinel (address) answers nothing",
		"x509: certificate is valid for 10.0.0.1, not 10.0.0.5":                          "x509: certificate is valid for (address), not (address)",
		"ask redis: ERR max number of clients reached":                                   "ask redis: ERR max number of clients reached",
		"ask redis: context deadline exceeded":                                           "ask redis: context deadline exceeded",
		"ask redis: WRONGPASS invalid username-password pair or user is disabled.":       "ask redis: WRONGPASS invalid username-password pair or user is disabled.",
		"LOADING Redis is loading the dataset in memory":                                 "LOADING Redis is loading the dataset in memory",
		"ask redis: dial tcp 10.0.0.5:6379: dial tcp 10.0.0.5:6379: network unreachable": "ask redis: dial tcp: dial tcp: network unreachable",
	} {
		require.Equal(t, want, withoutAddresses(text))
	}
}
