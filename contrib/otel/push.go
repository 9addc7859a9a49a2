package belayotel

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/belayq/belay"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/retry"
)

// bounds are the histogram buckets of durations, in seconds, as the conventions prescribe them.
var bounds = metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10)

// Push returns middleware for Client.Use that begins a span for each push and writes its context into the job.
// Add it at the place belay.Place{Last: true}, so that it sees jobs as they are pushed.
//
// If the program has already set a context in the job's fields, the job keeps it, and the span of the push is
// linked to it.
func Push(cfg Config) belay.PushMiddleware {
	p := newInstrumentation(cfg)
	p.count = must(messagingconv.NewClientSentMessages(p.meter)).Inst()
	p.took = must(messagingconv.NewClientOperationDuration(p.meter, bounds)).Inst()
	return p.push
}

// pushAttributes are the attributes of every push.
var pushAttributes = []attribute.KeyValue{
	semconv.MessagingSystemKey.String(system), semconv.MessagingOperationName("push"), semconv.MessagingOperationTypeSend,
}

func (i *instrumentation) push(ctx context.Context, j *belay.RawJob) error {
	queue, class := cut(j.Queue, maxName), cut(j.Class, maxName)
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(pushAttributes...),
		trace.WithAttributes(semconv.MessagingDestinationName(queue), semconv.MessagingMessageID(cut(j.JID, maxName)), keyClass.String(class)),
	}
	link := trace.LinkFromContext(i.cfg.Propagator.Extract(context.Background(), pushed{j}))
	own := link.SpanContext.IsValid()
	if own {
		options = append(options, trace.WithLinks(link))
	}
	begun := time.Now()
	ctx, span := i.tracer.Start(ctx, "push "+queue, append(options, trace.WithTimestamp(begun))...)
	if !own {
		i.cfg.Propagator.Inject(ctx, pushed{j})
	}
	j.OnPushed(func(r belay.Receipt, err error) { i.endPush(ctx, span, begun, class, r, err) })
	return nil
}

// endPush ends the span of a push.
func (i *instrumentation) endPush(ctx context.Context, span trace.Span, begun time.Time, class string, r belay.Receipt, err error) {
	ended := time.Now()
	status := keyStatus.String(string(r.Status))
	attributes := append(slices.Clip(pushAttributes), semconv.MessagingDestinationName(i.queues.of(r.Queue)), keyClass.String(i.classes.of(class)), status)
	span.SetAttributes(status)
	if err != nil {
		attributes = append(attributes, i.fail(span, ended, class, pushErrorType(err), err))
	}
	span.End(trace.WithTimestamp(ended))
	var invalid *client.InvalidError
	if r.Status == belay.StatusRefused || errors.As(err, &invalid) {
		return // nothing was sent
	}
	i.measure(ctx, ended.Sub(begun), attributes)
}

// pushErrorType returns the error.type of a failed push.
func pushErrorType(err error) string {
	var invalid *client.InvalidError
	switch {
	case errors.Is(err, belay.ErrUnknown):
		return "unknown"
	case errors.Is(err, belay.ErrFull):
		return "full"
	case errors.Is(err, belay.ErrOldWorker):
		return "old_worker"
	case errors.As(err, &invalid):
		return "invalid"
	}
	return retry.Class(err)
}
