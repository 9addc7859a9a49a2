package examples_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/internal/drivertest"
)

// One process, so that its output has the order of its runs: never more than five webhooks of a tenant at
// once, and no more lookups than the service allows in the first minute.
func TestLimitsHold(t *testing.T) {
	t.Parallel()
	const webhooks, lookups = 20, 110
	redis := drivertest.Start(t)
	client, err := belay.Open(t.Context(), redis.URL(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	push := func(queue, class string, arg ...any) {
		_, err := client.Push(t.Context(), belay.RawJob{Class: class, Queue: queue, Args: arg})
		require.NoError(t, err)
	}
	tenants := []string{"acme", "globex"}
	for n := range webhooks {
		for _, tenant := range tenants {
			push("webhooks", "Webhook", tenant, fmt.Sprint("https://example.com/", n))
		}
	}
	for n := range lookups {
		push("lookups", "Lookup", fmt.Sprint(n, " Main Street"))
	}
	worker := startProcess(t, redis, build(t, "./limits"), "-concurrency", "20", "-log-level", "warn")
	eventually(t, "all webhooks, and the lookups of one minute", func() bool {
		out := worker.out.String()
		return strings.Count(out, "end ") == webhooks*len(tenants) && strings.Count(out, "lookup ") >= 100
	})
	worker.stop()
	open := map[string]int{}
	for line := range strings.Lines(worker.out.String()) {
		what, tenant, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "begin":
			open[tenant]++
			require.LessOrEqual(t, open[tenant], 5)
		case "end":
			open[tenant]--
		}
	}
	waiting := number(t, redis, "LLEN", "belay:waiting:geocoder:")
	require.Equal(t, lookups, waiting+strings.Count(worker.out.String(), "lookup ")+number(t, redis, "LLEN", "queue:lookups"))
}
