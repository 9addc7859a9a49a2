package belayotel

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/belayq/belay"
	"github.com/belayq/belay/retry"
)

// Config configures Push and Run. The zero value is ready.
type Config struct {
	// TracerProvider receives the spans, and MeterProvider the metrics. Default: the global ones of package
	// otel.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// Propagator writes the context of a push into the fields of its job, and reads it for the run. The
	// programs that push and run a job need the same. Default: propagation.TraceContext, not the global
	// propagator, which does nothing unless the program sets it. If the propagator includes
	// propagation.Baggage, the baggage of a request is stored with its jobs.
	Propagator propagation.TextMapPropagator
	// LinkRuns begins a new trace for each run, linked to the span of its push. Use it if jobs are pushed by
	// programs that you do not trust, or run so much later that one trace would be too long. Default: the
	// span of a run is a child of the span of its push, and linked to it.
	LinkRuns bool
	// MaxNames bounds the number of queues, of classes and of error types that metrics distinguish: the first
	// ones that occur. All others are counted as "(other)", error types as "_OTHER". Default: 100.
	MaxNames int
	// RedactError returns what spans show of an error; ServerConfig.RedactError concerns the log. It is called
	// concurrently. If it panics, nothing is shown. Default: the error's text.
	RedactError func(class string, err error) string
}

const (
	scope = "github.com/belayq/belay/contrib/otel"
	// system is messaging.system.
	system = "belay"

	// maxText bounds an error's text in a span, and maxStack the stack of a panic, in bytes. Both can have any
	// length, and the exporter holds thousands of spans.
	maxText  = 4 << 10
	maxStack = 16 << 10
	// maxName bounds names in attributes, in bytes. A push has the same bound for classes and queues, but a
	// payload of another program may have longer names.
	maxName = 255
)

// Attributes of Belay's own.
const (
	keyClass   = attribute.Key("belay.job.class")
	keyAttempt = attribute.Key("belay.job.attempt")
	keyOutcome = attribute.Key("belay.job.outcome")
	keyStatus  = attribute.Key("belay.push.status")
)

// instrumentation is what Push and Run have in common.
type instrumentation struct {
	cfg     Config
	tracer  trace.Tracer
	meter   metric.Meter
	count   metric.Int64Counter     // of messages
	took    metric.Float64Histogram // how long each took
	queues  names
	classes names
	errors  names
}

func newInstrumentation(cfg Config) *instrumentation {
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	if cfg.Propagator == nil {
		cfg.Propagator = propagation.TraceContext{}
	}
	limit := cmp.Or(max(cfg.MaxNames, 0), 100)
	return &instrumentation{
		cfg:     cfg,
		tracer:  cfg.TracerProvider.Tracer(scope, trace.WithInstrumentationVersion(belay.Version), trace.WithSchemaURL(semconv.SchemaURL)),
		meter:   cfg.MeterProvider.Meter(scope, metric.WithInstrumentationVersion(belay.Version), metric.WithSchemaURL(semconv.SchemaURL)),
		queues:  names{limit: limit, other: "(other)"},
		classes: names{limit: limit, other: "(other)"},
		errors:  names{limit: limit, other: "_OTHER"}, // as the conventions prescribe
	}
}

// measure counts a message and records its duration.
func (i *instrumentation) measure(ctx context.Context, took time.Duration, attributes []attribute.KeyValue) {
	set := metric.WithAttributeSet(attribute.NewSet(attributes...))
	i.count.Add(ctx, 1, set)
	i.took.Record(ctx, took.Seconds(), set)
}

// must returns the instrument, and passes its error to OpenTelemetry's error handler.
func must[T any](instrument T, err error) T {
	if err != nil {
		otel.Handle(err)
	}
	return instrument
}

// fail marks a span as failed and records the error with the time of the failure. It returns the attribute
// error.type for the metrics.
func (i *instrumentation) fail(span trace.Span, at time.Time, class, kind string, err error) attribute.KeyValue {
	text := i.text(class, err)
	event := []attribute.KeyValue{semconv.ExceptionType(retry.Class(err)), semconv.ExceptionMessage(text)}
	if panicked := retry.Panicked(err); panicked != nil {
		event = append(event, semconv.ExceptionStacktrace(cut(string(panicked.Stack), maxStack)))
	}
	known := semconv.ErrorTypeKey.String(i.errors.of(kind))
	span.AddEvent(semconv.ExceptionEventName, trace.WithTimestamp(at), trace.WithAttributes(event...))
	span.SetAttributes(known)
	span.SetStatus(codes.Error, text)
	return known
}

// text returns what a span shows of an error.
func (i *instrumentation) text(class string, err error) (text string) {
	if i.cfg.RedactError == nil {
		return cut(retry.Text(err), maxText)
	}
	defer func() {
		if recover() != nil {
			text = "(not shown: its redaction panicked)"
		}
	}()
	return cut(i.cfg.RedactError(class, err), maxText)
}

// names maps all names beyond the first limit to other.
type names struct {
	limit int
	other string
	mu    sync.Mutex
	seen  map[string]bool
}

// of returns name if it is one of the first, otherwise other.
func (n *names) of(name string) string {
	name = cut(name, maxName)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.seen[name] && len(n.seen) >= n.limit {
		return n.other
	}
	if n.seen == nil {
		n.seen = make(map[string]bool)
	}
	n.seen[name] = true
	return name
}

// cut returns the first maxBytes bytes of a text, as valid UTF-8.
func cut(text string, maxBytes int) string {
	return strings.ToValidUTF8(text[:min(len(text), maxBytes)], "")
}
