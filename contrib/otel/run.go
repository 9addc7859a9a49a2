package belayotel

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/belayq/belay"
	"github.com/belayq/belay/retry"
)

// Run returns middleware for Server.Use that begins a span for each run, as a child of the span of its push.
// The handler's context contains the span, so the spans of its calls and pushes are children of it. Add it at
// the place belay.Place{First: true}, so that other middleware runs within the span. A panic is recorded and
// passes on. Outside of a Server, for example in a test that calls a handler, it does nothing.
func Run(cfg Config) belay.Middleware {
	r := newInstrumentation(cfg)
	r.count = must(messagingconv.NewClientConsumedMessages(r.meter)).Inst()
	r.took = must(messagingconv.NewProcessDuration(r.meter, bounds)).Inst()
	return r.around
}

// runAttributes are the attributes of every run.
var runAttributes = []attribute.KeyValue{
	semconv.MessagingSystemKey.String(system), semconv.MessagingOperationName("run"), semconv.MessagingOperationTypeProcess,
}

// outcomeLost is the outcome of a run whose job was recovered by another process.
const outcomeLost = "lost"

func (i *instrumentation) around(next belay.Handler) belay.Handler {
	return func(ctx context.Context, j *belay.Job) error {
		r := &run{instrumentation: i, begun: time.Now()}
		if !belay.AfterRun(ctx, r.finish) {
			return next(ctx, j)
		}
		ctx = r.begin(ctx, j)
		defer func() { r.ended = time.Now() }()
		return next(ctx, j)
	}
}

// A run is one run and its span.
type run struct {
	*instrumentation
	begun, ended time.Time
	ctx          context.Context
	span         trace.Span
	class, queue string
}

// begin begins the span.
func (r *run) begin(ctx context.Context, j *belay.Job) context.Context {
	info, _ := belay.Info(ctx)
	r.class, r.queue = cut(info.Class, maxName), cut(info.Queue, maxName)
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(r.begun), trace.WithAttributes(runAttributes...),
		trace.WithAttributes(
			semconv.MessagingDestinationName(r.queue), semconv.MessagingMessageID(cut(info.JID, maxName)),
			semconv.MessagingClientID(info.Identity), keyClass.String(r.class), keyAttempt.Int(info.Attempt)),
	}
	// The context of Server.Run may contain a span of the program; that is not the parent of a run.
	ctx = r.cfg.Propagator.Extract(trace.ContextWithSpanContext(ctx, trace.SpanContext{}), taken{j})
	if trace.SpanContextFromContext(ctx).IsValid() {
		options = append(options, trace.WithLinks(trace.LinkFromContext(ctx)))
		if r.cfg.LinkRuns {
			options = append(options, trace.WithNewRoot())
		}
	}
	r.ctx, r.span = r.tracer.Start(ctx, "run "+r.queue, options...)
	return r.ctx
}

// finish ends the span with the outcome of the run.
func (r *run) finish(outcome belay.Outcome, err error) {
	exit := string(outcome.Exit())
	if errors.Is(context.Cause(r.ctx), belay.ErrOwnershipLost) {
		exit = outcomeLost // whatever the handler has returned, nothing is stored
	}
	attributes := append(slices.Clip(runAttributes), semconv.MessagingDestinationName(r.queues.of(r.queue)),
		keyClass.String(r.classes.of(r.class)), keyOutcome.String(exit))
	r.span.SetAttributes(keyOutcome.String(exit))
	if _, failed := outcome.Counts(); failed {
		attributes = append(attributes, r.fail(r.span, r.ended, r.class, retry.Class(err), err))
	}
	r.span.End(trace.WithTimestamp(r.ended))
	r.measure(r.ctx, r.ended.Sub(r.begun), attributes)
}
