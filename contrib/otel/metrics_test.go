package belayotel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/belayq/belay"
	belayotel "github.com/belayq/belay/contrib/otel"
)

func TestMetricsOfRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.HandleRaw("Fails", func(context.Context, *belay.Job) error { return errors.New("no") })
	r.server.HandleRaw("Works", func(context.Context, *belay.Job) error { return nil })
	r.work()
	for range 3 {
		r.push(belay.RawJob{Class: "Works", Queue: "mail"})
	}
	r.push(belay.RawJob{Class: "Fails", Queue: "mail"})
	runs := r.await("run mail", 4)
	set := func(class, outcome string, more ...attribute.KeyValue) attribute.Set {
		return attribute.NewSet(append(more,
			attribute.String("messaging.system", "belay"), attribute.String("messaging.operation.name", "run"),
			attribute.String("messaging.operation.type", "process"), attribute.String("messaging.destination.name", "mail"),
			attribute.String("belay.job.class", class), attribute.String("belay.job.outcome", outcome))...)
	}
	works, fails := set("Works", "done"), set("Fails", "retry", attribute.String("error.type", "error"))
	for _, name := range []string{"messaging.client.consumed.messages", "messaging.process.duration"} {
		points := r.settled(name, 4)
		require.Len(t, points, 2, name)
		require.EqualValues(t, 3, points[works.Equivalent()].count, name)
		require.EqualValues(t, 1, points[fails.Equivalent()].count, name)
	}
	longest := 0.0
	for _, run := range runs {
		longest = max(longest, run.EndTime.Sub(run.StartTime).Seconds())
	}
	require.LessOrEqual(t, r.points("messaging.process.duration")[works.Equivalent()].sum, 3*longest+1e-6, "the same time as the spans'")
}

// settled waits until a metric has this count: a run is counted after the end of its span.
func (r *rig) settled(name string, count uint64) map[attribute.Distinct]point {
	r.Helper()
	var points map[attribute.Distinct]point
	require.Eventually(r, func() bool {
		points = r.points(name)
		sum := uint64(0)
		for _, p := range points {
			sum += p.count
		}
		return sum == count
	}, patience, tick)
	return points
}

// Whatever names producers use, the number of labels of a metric is bounded.
func TestMetricsHaveBoundedLabels(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(cfg *belayotel.Config) { cfg.MaxNames = 3 })
	r.server.HandleUnknown(func(_ context.Context, j *belay.Job) error { return classError(j.Class()) })
	r.work()
	for i := range 20 {
		r.push(belay.RawJob{Class: fmt.Sprint("Class", i), Queue: "mail"})
		r.push(belay.RawJob{Class: "Elsewhere", Queue: fmt.Sprint("queue", i)})
	}
	r.await("run mail", 20)
	runs := r.settled("messaging.process.duration", 20)
	require.LessOrEqual(t, len(runs), 4*4)
	for key, want := range map[string]int{"belay.job.class": 4, "error.type": 4, "messaging.destination.name": 1} {
		require.Len(t, values(runs, key), want, key)
	}
	require.Contains(t, values(runs, "belay.job.class"), "(other)")
	require.Contains(t, values(runs, "error.type"), "_OTHER")
	pushes := r.points("messaging.client.sent.messages")
	require.Len(t, values(pushes, "messaging.destination.name"), 4)
	require.Contains(t, values(pushes, "messaging.destination.name"), "(other)")
	require.EqualValues(t, 40, r.sent(), "every push is counted")
}

type classError string

func (e classError) Error() string      { return "no" }
func (e classError) ErrorClass() string { return "Error" + string(e) }

func values(points map[attribute.Distinct]point, key string) map[string]bool {
	found := map[string]bool{}
	for _, p := range points {
		value, _ := p.Value(attribute.Key(key))
		found[value.AsString()] = true
	}
	return found
}
