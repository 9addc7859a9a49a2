package client

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/internal/drivertest"
)

func BenchmarkPushMany(b *testing.B) {
	for name, queues := range map[string][]string{"one queue": {"a"}, "several queues": {"a", "b", "c"}} {
		b.Run(name, func(b *testing.B) {
			d, err := goredisdriver.Open(drivertest.Start(b).URL())
			require.NoError(b, err)
			client, err := New(d, Config{Prefix: strings.TrimSuffix(drivertest.Prefix(b), ":")})
			require.NoError(b, err)
			defer func() { require.NoError(b, client.Close()) }()
			jobs := make([]RawJob, b.N)
			for i := range jobs {
				jobs[i] = RawJob{Class: "WelcomeEmail", Args: []any{i, "template"}, Queue: queues[i%len(queues)]}
			}
			b.ReportAllocs()
			b.ResetTimer()
			_, err = client.PushMany(b.Context(), slices.Values(jobs))
			require.NoError(b, err)
		})
	}
}

// BenchmarkPush says what a push costs that may be repeated, beside one that may not.
func BenchmarkPush(b *testing.B) {
	for name, again := range map[string]bool{"plain": false, "repeatable": true} {
		b.Run(name, func(b *testing.B) {
			server := drivertest.Start(b)
			d, err := goredisdriver.Open(server.URL())
			require.NoError(b, err)
			client, err := New(d, Config{})
			require.NoError(b, err)
			defer func() { require.NoError(b, client.Close()) }()
			b.ReportAllocs()
			for b.Loop() {
				_, err := client.Push(b.Context(), RawJob{Class: "WelcomeEmail", Args: []any{42, "template"}, PushOnce: again})
				require.NoError(b, err)
			}
			text, err := server.Do(b.Context(), "INFO", "commandstats")
			require.NoError(b, err)
			total := 0.0
			for _, spent := range regexp.MustCompile(`cmdstat_(?:sadd|lpush|evalsha):calls=\d+,usec=(\d+)`).FindAllStringSubmatch(text.(string), -1) {
				usec, err := strconv.ParseFloat(spent[1], 64)
				require.NoError(b, err)
				total += usec
			}
			b.ReportMetric(total/float64(b.N), "redis-µs/push")
		})
	}
}
