package belayotel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/belayq/belay"
	belayotel "github.com/belayq/belay/contrib/otel"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
)

// A request pushes a job, its run pushes another: one trace, each span the child of the one that caused it.
func TestPushAndRunAreOneTrace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.HandleRaw("Welcome", func(ctx context.Context, _ *belay.Job) error {
		_, inside := r.tracer.Start(ctx, "inside")
		inside.End()
		_, err := r.client.Push(ctx, belay.RawJob{Class: "Next"})
		return err
	})
	r.server.HandleRaw("Next", func(context.Context, *belay.Job) error { return nil })
	receipt := r.push(belay.RawJob{Class: "Welcome", Queue: "mail"})
	request, push := r.await("request", 1)[0], r.await("push mail", 1)[0]
	require.Len(t, r.payloads("mail"), 1)
	parsed, err := job.Parse(r.payloads("mail")[0])
	require.NoError(t, err)
	parent, _ := parsed.Text("traceparent")
	require.Equal(t, fmt.Sprintf("00-%s-%s-01", push.SpanContext.TraceID(), push.SpanContext.SpanID()), parent,
		"where the instrumentation of Ruby's Sidekiq looks for it")
	_, found := parsed.Field("tracestate")
	require.False(t, found, "an empty one is not written")

	r.work()
	run, inside := r.await("run mail", 1)[0], r.await("inside", 1)[0]
	push2, run2 := r.await("push default", 1)[0], r.await("run default", 1)[0]
	r.child(request, push)
	r.child(push, run)
	r.child(run, inside)
	r.child(run, push2)
	r.child(push2, run2)
	require.True(t, run.Parent.IsRemote())
	require.Len(t, run.Links, 1)
	require.Equal(t, push.SpanContext.SpanID(), run.Links[0].SpanContext.SpanID())

	require.Equal(t, trace.SpanKindProducer, push.SpanKind)
	require.ElementsMatch(t, []attribute.KeyValue{
		attribute.String("messaging.system", "belay"), attribute.String("messaging.operation.name", "push"),
		attribute.String("messaging.operation.type", "send"), attribute.String("messaging.destination.name", "mail"),
		attribute.String("messaging.message.id", receipt.JID), attribute.String("belay.job.class", "Welcome"),
		attribute.String("belay.push.status", "queued"),
	}, push.Attributes)
	require.Equal(t, trace.SpanKindConsumer, run.SpanKind)
	require.ElementsMatch(t, []attribute.KeyValue{
		attribute.String("messaging.system", "belay"), attribute.String("messaging.operation.name", "run"),
		attribute.String("messaging.operation.type", "process"), attribute.String("messaging.destination.name", "mail"),
		attribute.String("messaging.message.id", receipt.JID), attribute.String("messaging.client.id", r.server.Identity()),
		attribute.String("belay.job.class", "Welcome"), attribute.Int("belay.job.attempt", 1), attribute.String("belay.job.outcome", "done"),
	}, run.Attributes)
	require.Equal(t, codes.Unset, run.Status.Code)
	require.Equal(t, "https://opentelemetry.io/schemas/1.43.0", run.InstrumentationScope.SchemaURL)
	require.Equal(t, belay.Version, run.InstrumentationScope.Version)
}

// A bulk push that needs several calls: each job has its own context in its payload.
func TestEachJobOfABulkPushHasItsTrace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.HandleRaw("Bulk", func(context.Context, *belay.Job) error { return nil })
	const count = 300
	ctx, span := r.tracer.Start(t.Context(), "request")
	receipts, err := r.client.PushMany(ctx, slices.Values(slices.Repeat([]belay.RawJob{{Class: "Bulk"}}, count)))
	require.NoError(t, err)
	span.End()
	r.work()
	pushes, runs := r.await("push default", count), r.await("run default", count)
	of := map[string]tracetest.SpanStub{}
	for i, push := range pushes {
		require.Equal(t, receipts[i].JID, value(push, "messaging.message.id"))
		require.Equal(t, span.SpanContext().SpanID(), push.Parent.SpanID())
		of[receipts[i].JID] = push
	}
	for _, run := range runs {
		r.child(of[value(run, "messaging.message.id")], run)
	}
}

func TestScheduledJobsKeepTheirTrace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.HandleRaw("Later", func(context.Context, *belay.Job) error { return nil })
	r.work()
	r.push(belay.RawJob{Class: "Later", In: 100 * time.Millisecond})
	push, run := r.await("push default", 1)[0], r.await("run default", 1)[0]
	require.Equal(t, "scheduled", value(push, "belay.push.status"))
	r.child(push, run)
}

// Every attempt, up to the last one, has its own span below the span of the push.
func TestEachAttemptHasASpan(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.HandleRaw("Fails", func(context.Context, *belay.Job) error { return belay.RetryIn(0, errors.New("no")) })
	r.work()
	r.push(belay.RawJob{Class: "Fails"})
	push, runs := r.await("push default", 1)[0], r.await("run default", 3)
	for i, outcome := range []string{"retry", "retry", "dead"} {
		r.child(push, runs[i])
		require.Equal(t, fmt.Sprint(i+1), value(runs[i], "belay.job.attempt"))
		require.Equal(t, outcome, value(runs[i], "belay.job.outcome"))
		require.Equal(t, codes.Error, runs[i].Status.Code)
	}
}

type namedError struct{}

func (namedError) Error() string      { return "declined" }
func (namedError) ErrorClass() string { return "Bank::Declined" }

func TestOutcomesOfRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do            func(ctx context.Context) error
		job           belay.RawJob
		outcome, kind string // no kind: the run has not failed
		text          string
	}{
		"done":              {do: func(context.Context) error { return nil }, outcome: "done"},
		"retry":             {do: func(context.Context) error { return fmt.Errorf("at the till: %w", namedError{}) }, outcome: "retry", kind: "Bank::Declined", text: "at the till: declined"},
		"last attempt":      {do: func(context.Context) error { return errors.New("no") }, job: belay.RawJob{Retry: job.RetryRule{Kind: job.RetryLimit}}, outcome: "dead", kind: "error", text: "no"},
		"killed":            {do: func(context.Context) error { return belay.Kill(namedError{}) }, outcome: "dead", kind: "Bank::Declined", text: "declined"},
		"not kept":          {do: func(context.Context) error { return namedError{} }, job: belay.RawJob{Retry: job.RetryRule{Kind: job.RetryNever}}, outcome: "discarded", kind: "Bank::Declined", text: "declined"},
		"discarded":         {do: func(context.Context) error { return belay.Discard(nil) }, outcome: "discarded"},
		"discarded failure": {do: func(context.Context) error { return belay.Discard(errors.New("no")) }, outcome: "discarded", kind: "error", text: "no"},
		"snoozed":           {do: func(context.Context) error { return belay.Snooze(time.Hour) }, outcome: "snoozed"},
		"timeout":           {do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, job: belay.RawJob{Timeout: time.Millisecond}, outcome: "retry", kind: "Timeout", text: "timed out after 1ms"},
		"panic":             {do: func(context.Context) error { panic("oh") }, outcome: "retry", kind: "panic", text: "panic: oh"},
		"without words":     {do: func(context.Context) error { return (*belay.PanicError)(nil) }, outcome: "retry", kind: "panic", text: "panic: (no text: the error's own method panicked)"},
		"endless":           {do: func(context.Context) error { return errors.New(strings.Repeat("é", 1<<20)) }, outcome: "retry", kind: "error", text: strings.Repeat("é", 2048)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.server.HandleRaw("Any", func(ctx context.Context, _ *belay.Job) error { return c.do(ctx) })
			failed := make(chan error, 1)
			r.server.OnError(func(_ context.Context, _ *belay.Job, err error) { failed <- err })
			r.work()
			c.job.Class = "Any"
			r.push(c.job)
			run := r.await("run default", 1)[0]
			require.Equal(t, c.outcome, value(run, "belay.job.outcome"))
			require.Equal(t, c.kind, value(run, "error.type"))
			if c.kind == "" {
				require.Equal(t, sdktrace.Status{}, run.Status)
				require.Empty(t, run.Events)
				return
			}
			require.Equal(t, sdktrace.Status{Code: codes.Error, Description: c.text}, run.Status)
			require.Len(t, run.Events, 1)
			event := tracetest.SpanStub{Attributes: run.Events[0].Attributes}
			require.Equal(t, "exception", run.Events[0].Name)
			require.Equal(t, c.text, value(event, "exception.message"))
			require.Equal(t, c.kind, value(event, "exception.type"))
			if name == "panic" {
				require.Contains(t, value(event, "exception.stacktrace"), "TestOutcomesOfRuns")
				var panicked *belay.PanicError
				require.ErrorAs(t, <-failed, &panicked, "the panic is passed on")
				require.Equal(t, "oh", panicked.Value)
			}
		})
	}
}

// A stop requeues the job: no failure, and the next run is part of the same trace.
func TestRequeuedRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	began := make(chan struct{}, 1)
	r.server.HandleRaw("Long", func(ctx context.Context, _ *belay.Job) error {
		began <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	r.push(belay.RawJob{Class: "Long"})
	done := make(chan error, 1)
	go func() { done <- r.server.Run(context.WithoutCancel(t.Context())) }()
	<-began
	r.server.Stop()
	require.NoError(t, <-done)
	run := r.await("run default", 1)[0]
	require.Equal(t, "requeued", value(run, "belay.job.outcome"))
	require.Equal(t, sdktrace.Status{}, run.Status)
	require.Contains(t, r.payloads("default")[0], run.SpanContext.TraceID().String())
}

// A process that loses its connection is declared dead, and another one runs the job. Both runs are in the
// trace, and the outcome of the first is "lost".
func TestRunsOfAJobThatWasRecovered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
	redis, err := goredisdriver.Open(proxy.URL())
	require.NoError(t, err)
	behind, err := belay.NewClient(redis, &belay.ClientConfig{Prefix: r.prefix})
	require.NoError(t, err)
	defer func() { require.NoError(t, behind.Close()) }()
	began := make(chan struct{})
	serve := func(client *belay.Client, handler belay.Handler) {
		server, err := belay.NewServer(client, belay.ServerConfig{Heartbeat: 200 * time.Millisecond, TTL: 2 * time.Second, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		server.Use("otel", belayotel.Run(r.cfg))
		server.HandleRaw("Long", handler)
		done := make(chan error, 1)
		go func() { done <- server.Run(context.WithoutCancel(t.Context())) }()
		t.Cleanup(func() {
			server.Stop()
			require.NoError(t, <-done)
		})
	}
	first := true
	serve(behind, func(ctx context.Context, _ *belay.Job) error {
		if first {
			first = false
			close(began)
			<-ctx.Done()
		}
		return nil
	})
	r.push(belay.RawJob{Class: "Long"})
	<-began
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Do: faultproxy.Close()})
	serve(r.client, func(context.Context, *belay.Job) error { return nil })
	run := r.await("run default", 1)[0]
	proxy.Clear()
	runs := r.await("run default", 2)
	push := r.await("push default", 1)[0]
	r.child(push, runs[0])
	r.child(push, runs[1])
	require.Equal(t, []string{"lost", "done"}, []string{value(runs[0], "belay.job.outcome"), value(runs[1], "belay.job.outcome")})
	require.Equal(t, run.SpanContext, runs[1].SpanContext)
	require.Equal(t, sdktrace.Status{}, runs[0].Status)
}

// A context that the program, or a Ruby producer, has put into the job is kept.
func TestAContextOfTheProgramIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.HandleRaw("Own", func(context.Context, *belay.Job) error { return nil })
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r.push(belay.RawJob{Class: "Own", Extra: []job.Edit{job.SetString("traceparent", parent), job.SetString("tracestate", "a=1")}})
	push := r.await("push default", 1)[0]
	require.Len(t, push.Links, 1)
	require.Equal(t, "b7ad6b7169203331", push.Links[0].SpanContext.SpanID().String())
	require.Equal(t, 1, strings.Count(r.payloads("default")[0], "traceparent"))
	r.work()
	run := r.await("run default", 1)[0]
	require.Equal(t, "b7ad6b7169203331", run.Parent.SpanID().String())
	require.Equal(t, "a=1", run.SpanContext.TraceState().String())

	receipt := r.push(belay.RawJob{Class: "Own", Queue: "mail", Extra: []job.Edit{{Name: "traceparent", JSON: "7"}}})
	push = r.await("push mail", 1)[0]
	require.Equal(t, receipt.JID, value(push, "messaging.message.id"))
	require.Empty(t, push.Links)
	r.child(push, r.await("run mail", 1)[0])
}

func TestLinkRunsBeginsATraceForEachRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(cfg *belayotel.Config) { cfg.LinkRuns = true })
	r.server.HandleRaw("Own", func(context.Context, *belay.Job) error { return nil })
	r.work()
	r.push(belay.RawJob{Class: "Own"})
	push, run := r.await("push default", 1)[0], r.await("run default", 1)[0]
	require.NotEqual(t, push.SpanContext.TraceID(), run.SpanContext.TraceID())
	require.False(t, run.Parent.IsValid())
	require.Len(t, run.Links, 1)
	require.Equal(t, push.SpanContext.SpanID(), run.Links[0].SpanContext.SpanID())
}

// Baggage travels with a job if the propagator includes it, whatever the other propagators do.
func TestAPropagatorOfTheProgramCanCarryBaggage(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(cfg *belayotel.Config) {
		cfg.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}, awkward{})
	})
	seen := make(chan string, 1)
	r.server.HandleRaw("Own", func(ctx context.Context, _ *belay.Job) error {
		seen <- baggage.FromContext(ctx).Member("tenant").Value()
		return nil
	})
	r.work()
	tenant, err := baggage.NewMember("tenant", "acme")
	require.NoError(t, err)
	bag, err := baggage.New(tenant)
	require.NoError(t, err)
	_, err = r.client.Push(baggage.ContextWithBaggage(t.Context(), bag), belay.RawJob{Class: "Own"})
	require.NoError(t, err)
	require.Equal(t, "acme", <-seen)
	r.child(r.await("push default", 1)[0], r.await("run default", 1)[0])
}

// awkward is a propagator that sets fields that a job must not have.
type awkward struct{}

func (awkward) Inject(_ context.Context, carrier propagation.TextMapCarrier) {
	carrier.Set("class", "Stolen")
	carrier.Set("", "nameless")
	carrier.Set("bytes\xff", "x")
	carrier.Set("jid", "none")
}

func (awkward) Extract(ctx context.Context, carrier propagation.TextMapCarrier) context.Context {
	_, _ = carrier.Get("class"), carrier.Keys()
	carrier.Set("class", "Stolen")
	return ctx
}
func (awkward) Fields() []string { return nil }

func TestRedactErrorDecidesWhatSpansShow(t *testing.T) {
	t.Parallel()
	for want, redact := range map[string]func(string, error) string{
		"Own failed":                          func(class string, _ error) string { return class + " failed" },
		"(not shown: its redaction panicked)": func(string, error) string { panic("x") },
	} {
		r := newRig(t, func(cfg *belayotel.Config) { cfg.RedactError = redact })
		r.server.HandleRaw("Own", func(context.Context, *belay.Job) error { return errors.New("secret") })
		r.work()
		r.push(belay.RawJob{Class: "Own"})
		run := r.await("run default", 1)[0]
		require.Equal(t, want, run.Status.Description)
		require.NotContains(t, fmt.Sprint(run), "secret")
	}
}

// Without a provider, pushes and runs work, and payloads have no additional fields.
func TestWithoutAProviderNothingIsWritten(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(cfg *belayotel.Config) { cfg.TracerProvider, cfg.MeterProvider = nil, nil })
	ran := make(chan struct{})
	r.server.HandleRaw("Own", func(context.Context, *belay.Job) error { close(ran); return nil })
	_, err := r.client.Push(t.Context(), belay.RawJob{Class: "Own"})
	require.NoError(t, err)
	require.NotContains(t, r.payloads("default")[0], "trace")
	r.work()
	<-ran
}

// A program may trace its main function. The runs of its server are not part of that trace.
func TestRunsAreNotPartOfTheServersOwnTrace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.HandleRaw("Own", func(context.Context, *belay.Job) error { return nil })
	r.pushForeign(`{"class":"Own","jid":"1","args":[]}`)
	ctx, span := r.tracer.Start(t.Context(), "main")
	defer span.End()
	done := make(chan error, 1)
	go func() { done <- r.server.Run(ctx) }()
	run := r.await("run mail", 1)[0]
	require.False(t, run.Parent.IsValid())
	require.NotEqual(t, span.SpanContext().TraceID(), run.SpanContext.TraceID())
	r.server.Stop()
	require.NoError(t, <-done)
}

func TestOutsideOfAServerRunDoesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	parsed, err := job.Parse(`{"class":"Own","jid":"1","args":[]}`)
	require.NoError(t, err)
	failure := errors.New("no")
	handler := belayotel.Run(r.cfg)(func(context.Context, *belay.Job) error { return failure })
	require.ErrorIs(t, handler(t.Context(), parsed), failure)
	require.Empty(t, r.spans.GetSpans())
}
