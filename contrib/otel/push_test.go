package belayotel_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/belayq/belay"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// The span of a push has the outcome that its caller gets, and only what was sent is counted as sent.
func TestOutcomesOfPushes(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
	r := rigOn(t, proxy.URL())
	broken := errors.New("broken")
	r.client.Use("later", func(_ context.Context, j *belay.RawJob) error {
		return map[string]error{"Refused": belay.Refuse("not today"), "Broken": broken}[j.Class]
	}, belay.Place{Last: true})
	unique := belay.RawJob{Class: "Unique", Unique: &dedup.Rule{Until: dedup.UntilExecuted, TTL: time.Minute}}
	for _, c := range []struct {
		job          belay.RawJob
		fault        []faultproxy.Rule
		status, kind string
		sent         bool
	}{
		{job: belay.RawJob{Class: "A"}, status: "queued", sent: true},
		{job: belay.RawJob{Class: "A", In: time.Hour}, status: "scheduled", sent: true},
		{job: unique, status: "queued", sent: true},
		{job: unique, status: "duplicate", sent: true},
		{job: belay.RawJob{Class: "Refused"}, status: "refused"},
		{job: belay.RawJob{Class: "A", Args: []any{make(chan int)}}, status: "not_pushed", kind: "invalid"},
		{job: belay.RawJob{Class: "Broken"}, status: "not_pushed", kind: "error", sent: true},
		{job: belay.RawJob{Class: "A"}, fault: []faultproxy.Rule{faultproxy.DropReply("LPUSH")}, status: "unknown", kind: "unknown", sent: true},
		{
			job: belay.RawJob{Class: "A"}, status: "not_pushed", kind: "full", sent: true,
			fault: []faultproxy.Rule{{On: faultproxy.Requests, Token: "LPUSH", Do: faultproxy.Fail("OOM command not allowed")}},
		},
	} {
		r.spans.Reset()
		before := r.sent()
		proxy.Add(c.fault...)
		receipt, err := r.client.Push(t.Context(), c.job)
		proxy.Clear()
		require.Equal(t, c.status, string(receipt.Status))
		require.Equal(t, c.kind == "", err == nil, "%v", err)
		push := r.await("push default", 1)[0]
		require.Equal(t, c.status, value(push, "belay.push.status"))
		require.Equal(t, c.kind, value(push, "error.type"))
		if err == nil {
			require.Equal(t, sdktrace.Status{}, push.Status)
		} else {
			require.Equal(t, sdktrace.Status{Code: codes.Error, Description: err.Error()}, push.Status)
			require.Len(t, push.Events, 1)
		}
		require.Equal(t, map[bool]uint64{true: before + 1, false: before}[c.sent], r.sent(), "%s %s", c.status, c.kind)
	}
	for _, p := range r.points("messaging.client.sent.messages") {
		kind, failed := p.Value("error.type")
		status, _ := p.Value("belay.push.status")
		require.Equal(t, failed, slices.Contains([]string{"unknown", "not_pushed"}, status.AsString()), kind)
	}
	require.Len(t, r.points("messaging.client.operation.duration"), len(r.points("messaging.client.sent.messages")))
}

// sent is how many jobs were counted as sent.
func (r *rig) sent() (sum uint64) {
	r.Helper()
	for _, p := range r.points("messaging.client.sent.messages") {
		sum += p.count
	}
	return sum
}
