package belayotel_test

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/belayq/belay"
	belayotel "github.com/belayq/belay/contrib/otel"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/internal/drivertest"
)

// TestMain lets the test's own binary be the second process of TestTracesJoinProcesses.
func TestMain(m *testing.M) {
	if os.Getenv(asWorker) != "" {
		work()
		return
	}
	os.Exit(drivertest.Main(m))
}

// patience bounds every wait: far above what anything here takes, so that only a hang fails by it.
const patience = 20 * time.Second

// tick is between two looks at what is waited for.
const tick = time.Millisecond

// A rig is a keyspace, and a collector in this process of what its client and its server export.
type rig struct {
	*testing.T
	prefix string
	redis  driver.Client
	client *belay.Client
	server *belay.Server
	cfg    belayotel.Config
	spans  *tracetest.InMemoryExporter
	meter  *sdkmetric.ManualReader
	tracer trace.Tracer
}

// newRig makes a rig. change may change the config of both middlewares.
func newRig(t *testing.T, change ...func(*belayotel.Config)) *rig {
	t.Helper()
	return rigOn(t, drivertest.Redis(t).URL(), change...)
}

func rigOn(t *testing.T, url string, change ...func(*belayotel.Config)) *rig {
	t.Helper()
	r := &rig{T: t, prefix: strings.TrimSuffix(drivertest.Prefix(t), ":"), spans: tracetest.NewInMemoryExporter(), meter: sdkmetric.NewManualReader()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(r.spans))
	r.tracer = tracers.Tracer("test")
	r.cfg = belayotel.Config{TracerProvider: tracers, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.meter))}
	for _, set := range change {
		set(&r.cfg)
	}
	var err error
	r.redis, err = goredisdriver.Open(url)
	require.NoError(t, err)
	r.client, err = belay.NewClient(r.redis, &belay.ClientConfig{Prefix: r.prefix, RepeatFor: -1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.client.Close()) })
	r.client.Use("otel", belayotel.Push(r.cfg), belay.Place{Last: true})
	r.server, err = belay.NewServer(r.client, belay.ServerConfig{
		Queues: belay.Queues("mail", "default"), Concurrency: 4, ShutdownTimeout: -1, PollInterval: 10 * time.Millisecond, Retries: 2,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	r.server.Use("otel", belayotel.Run(r.cfg), belay.Place{First: true})
	return r
}

// work runs the server until the test ends.
func (r *rig) work() {
	done := make(chan error, 1)
	go func() { done <- r.server.Run(context.WithoutCancel(r.Context())) }()
	r.Cleanup(func() {
		r.server.Stop()
		require.NoError(r, <-done)
	})
}

// push pushes a job, as part of a request that the program traces.
func (r *rig) push(j belay.RawJob) belay.Receipt {
	r.Helper()
	ctx, span := r.tracer.Start(r.Context(), "request")
	defer span.End()
	receipt, err := r.client.Push(ctx, j)
	require.NoError(r, err)
	return receipt
}

// pushForeign stores a payload that another program has written.
func (r *rig) pushForeign(payload string) {
	r.Helper()
	require.NoError(r, r.redis.Do(r.Context(), driver.Command("LPUSH", r.prefix+":queue:mail", payload))[0].Err)
}

// payloads are the jobs in a queue.
func (r *rig) payloads(queue string) []string {
	r.Helper()
	reply := r.redis.Do(r.Context(), driver.Command("LRANGE", r.prefix+":queue:"+queue, "0", "-1"))[0]
	require.NoError(r, reply.Err)
	var all []string
	for _, payload := range reply.Value.([]any) {
		all = append(all, payload.(string))
	}
	return all
}

// await waits until so many spans with a name have ended, and returns them in the order of their beginning.
func (r *rig) await(name string, count int) []tracetest.SpanStub {
	r.Helper()
	deadline := time.Now().Add(patience)
	for {
		found := slices.DeleteFunc(r.spans.GetSpans(), func(s tracetest.SpanStub) bool { return s.Name != name })
		if len(found) >= count {
			require.Len(r, found, count)
			slices.SortFunc(found, func(a, b tracetest.SpanStub) int { return cmp.Compare(a.StartTime.UnixNano(), b.StartTime.UnixNano()) })
			return found
		}
		require.True(r, time.Now().Before(deadline), "waited in vain for %d spans %q: %d", count, name, len(found))
		time.Sleep(tick)
	}
}

// child requires that one span is the child of another and linked to it.
func (r *rig) child(of, child tracetest.SpanStub) {
	r.Helper()
	require.Equal(r, of.SpanContext.TraceID(), child.SpanContext.TraceID())
	require.Equal(r, of.SpanContext.SpanID(), child.Parent.SpanID())
}

// value returns a span's attribute as text; "" if it has none.
func value(s tracetest.SpanStub, key string) string {
	for _, attribute := range s.Attributes {
		if string(attribute.Key) == key {
			return attribute.Value.String()
		}
	}
	return ""
}

// points returns the metric's data points: the attributes, and how many values each has.
func (r *rig) points(name string) map[attribute.Distinct]point {
	r.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(r, r.meter.Collect(r.Context(), &all))
	found := map[attribute.Distinct]point{}
	for _, scope := range all.ScopeMetrics {
		for _, metric := range scope.Metrics {
			if metric.Name != name {
				continue
			}
			switch data := metric.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					found[p.Attributes.Equivalent()] = point{p.Attributes, uint64(p.Value), 0}
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					found[p.Attributes.Equivalent()] = point{p.Attributes, p.Count, p.Sum}
				}
			}
		}
	}
	return found
}

type point struct {
	attribute.Set
	count uint64
	sum   float64
}
