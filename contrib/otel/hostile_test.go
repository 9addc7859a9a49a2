package belayotel_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/belayq/belay"
	"github.com/belayq/belay/job"
)

const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Any program can write any payload. Its run succeeds, and its span is bounded in size. The span is in the
// trace of the payload only if that context is well-formed.
func TestHostileContextsAreHarmless(t *testing.T) {
	t.Parallel()
	quoted := func(text string) string { return job.SetString("x", text).JSON }
	long := strings.Repeat("00-", 300_000)
	for name, c := range map[string]struct {
		fields string
		joined bool // to the trace of the payload
		state  bool
	}{
		"none":                      {``, false, false},
		"a_good_one":                {`,"traceparent":"` + good + `","tracestate":"a=1,b=2"`, true, true},
		"of_a_later_version":        {`,"traceparent":"cc` + good[2:] + `-more"`, true, false},
		"of_the_last_of_two_fields": {`,"traceparent":7,"traceparent":"` + good + `"`, true, false},
		"a_number":                  {`,"traceparent":7`, false, false},
		"an_object":                 {`,"traceparent":{"traceparent":"` + good + `"},"tracestate":["a=1"]`, false, false},
		"null":                      {`,"traceparent":null,"tracestate":null`, false, false},
		"an_empty_one":              {`,"traceparent":"","tracestate":""`, false, false},
		"of_zeros":                  {`,"traceparent":"00-` + strings.Repeat("0", 32) + `-` + strings.Repeat("0", 16) + `-01"`, false, false},
		"of_the_version_ff":         {`,"traceparent":"ff` + good[2:] + `"`, false, false},
		"in_capitals":               {`,"traceparent":"` + strings.ToUpper(good) + `"`, false, false},
		"no_hexadecimal":            {`,"traceparent":"` + strings.ReplaceAll(good, "a", "é") + `"`, false, false},
		"cut_off":                   {`,"traceparent":"` + good[:20] + `"`, false, false},
		"control_characters":        {`,"traceparent":"\u0000\u001b[31m\r\nHost: evil"`, false, false},
		"of_a_megabyte":             {`,"traceparent":"` + long + `"`, false, false},
		"good_then_a_megabyte":      {`,"traceparent":"` + good + `-` + long + `"`, false, false},
		"a_state_of_a_megabyte":     {`,"traceparent":"` + good + `","tracestate":` + quoted("a="+strings.Repeat("x", 1_000_000)), true, false},
		"a_state_of_many_members":   {`,"traceparent":"` + good + `","tracestate":` + quoted(strings.Repeat("a=1,", 250_000)), true, false},
		"a_state_beyond_512_bytes":  {`,"traceparent":"` + good + `","tracestate":` + quoted(strings.TrimSuffix(strings.Repeat("a=1,", 200), ",")), true, false},
		"a_state_with_a_header":     {`,"traceparent":"` + good + `","tracestate":"a=1\r\nHost: evil"`, true, false},
		"a_state_without_a_parent":  {`,"tracestate":"a=1"`, false, false},
		"a_name_of_a_megabyte":      {`,"traceparent` + long + `":"` + good + `"`, false, false},
		"deep":                      {`,"traceparent":` + strings.Repeat("[", 900) + strings.Repeat("]", 900), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.server.HandleUnknown(func(ctx context.Context, _ *belay.Job) error { return nil })
			r.work()
			huge := strings.Repeat("é", 1000)
			begun := time.Now()
			r.pushForeign(`{"class":"C` + huge + `","jid":"J` + huge + `","args":[]` + c.fields + `}`)
			run := r.await("run mail", 1)[0]
			t.Logf("%v", time.Since(begun))
			require.Equal(t, "done", value(run, "belay.job.outcome"))
			joined := run.SpanContext.TraceID().String() == good[3:35]
			require.Equal(t, c.joined, joined)
			require.Equal(t, c.joined, run.Parent.IsValid())
			require.Equal(t, c.state, run.SpanContext.TraceState().String() != "")
			require.Less(t, sizeOf(run), 4096)
		})
	}
}

// sizeOf returns about as many bytes as an exporter sends for a span.
func sizeOf(s tracetest.SpanStub) int {
	return len(fmt.Sprint(s.Name, s.Attributes, s.Events, s.Links, s.Status, s.SpanContext.TraceState()))
}
