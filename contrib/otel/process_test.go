package belayotel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/belayq/belay"
	belayotel "github.com/belayq/belay/contrib/otel"
	"github.com/belayq/belay/internal/drivertest"
)

// asWorker in the environment makes the test's binary a worker of the Redis with that URL, for keys with the
// prefix in asPrefix. It exports its spans to its standard output.
const (
	asWorker = "BELAY_OTEL_TEST_IS_THE_WORKER"
	asPrefix = "BELAY_OTEL_TEST_PREFIX"
)

var Welcome = belay.Define[string]("Welcome", belay.Queue("mail"), belay.NotIdempotent("this is a test"))

// work is the second process.
func work() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exporter, err := stdouttrace.New()
	exit(err)
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	cfg := belayotel.Config{TracerProvider: tracers}
	client, err := belay.Open(ctx, os.Getenv(asWorker), &belay.ClientConfig{Prefix: os.Getenv(asPrefix)})
	exit(err)
	client.Use("otel", belayotel.Push(cfg), belay.Place{Last: true})
	server, err := belay.NewServer(client, belay.ServerConfig{Queues: belay.Queues("mail", "default")})
	exit(err)
	server.Use("otel", belayotel.Run(cfg), belay.Place{First: true})
	attempts := 0
	Welcome.Handle(server, func(ctx context.Context, name string) error {
		if attempts++; attempts == 1 {
			return belay.RetryIn(0, errors.New("not yet"))
		}
		_, err := client.Push(ctx, belay.RawJob{Class: "Next"})
		return err
	})
	server.HandleRaw("Next", func(context.Context, *belay.Job) error { return nil })
	exit(server.Run(ctx))
	exit(errors.Join(client.Close(), tracers.Shutdown(context.Background())))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// exported is a span in the JSON of the worker's exporter.
type exported struct {
	Name                string
	SpanContext, Parent struct {
		TraceID, SpanID string
		Remote          bool
	}
	Attributes []struct {
		Key   string
		Value struct{ Value any }
	}
}

// This process pushes a job, and a second process runs it: the spans of both form one trace.
func TestTracesJoinProcesses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	worker := exec.CommandContext(t.Context(), os.Args[0])
	worker.Env = append(os.Environ(), asWorker+"="+drivertest.Redis(t).URL(), asPrefix+"="+r.prefix)
	worker.Stderr = t.Output()
	out, err := worker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, worker.Start())

	ctx, request := r.tracer.Start(t.Context(), "request")
	receipt, err := Welcome.Enqueue(ctx, r.client, "Ada")
	require.NoError(t, err)
	request.End()
	push := r.await("push mail", 1)[0]
	var spans []exported
	for lines := json.NewDecoder(out); len(spans) < 4; {
		var span exported
		require.NoError(t, lines.Decode(&span), "%v", spans)
		spans = append(spans, span)
		require.Equal(t, push.SpanContext.TraceID().String(), span.SpanContext.TraceID, span.Name)
	}
	require.NoError(t, worker.Process.Signal(syscall.SIGTERM))
	require.NoError(t, worker.Wait())

	parents := map[string][]string{} // by the parent's id: the names of its children
	for _, span := range spans {
		parents[span.Parent.SpanID] = append(parents[span.Parent.SpanID], span.Name)
	}
	require.Equal(t, []string{"run mail", "run mail"}, parents[push.SpanContext.SpanID().String()], "both attempts, below the push of another process")
	for _, span := range spans {
		switch span.Name {
		case "run mail":
			require.True(t, span.Parent.Remote)
			require.Contains(t, fmt.Sprint(span.Attributes), receipt.JID)
		case "push default":
			require.Equal(t, []string{"run default"}, parents[span.SpanContext.SpanID])
		}
	}
}
