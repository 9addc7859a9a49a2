package client

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/goredisdriver"
)

func BenchmarkPushMany(b *testing.B) {
	for name, queues := range map[string][]string{"one queue": {"a"}, "several queues": {"a", "b", "c"}} {
		b.Run(name, func(b *testing.B) {
			d, err := goredisdriver.Open(drivertest.Start(b).URL())
			require.NoError(b, err)
			client, err := New(d, Config{Prefix: strings.TrimSuffix(drivertest.Prefix(b), ":")})
			require.NoError(b, err)
			defer func() { require.NoError(b, client.Close()) }()
			jobs := make([]Job, b.N)
			for i := range jobs {
				jobs[i] = Job{Class: "WelcomeEmail", Args: []any{i, "template"}, Queue: queues[i%len(queues)]}
			}
			b.ReportAllocs()
			b.ResetTimer()
			_, err = client.PushMany(b.Context(), slices.Values(jobs))
			require.NoError(b, err)
		})
	}
}
