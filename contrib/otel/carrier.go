package belayotel

import (
	"encoding/json"
	"slices"

	"github.com/belayq/belay"
	"github.com/belayq/belay/job"
)

const (
	// maxState bounds tracestate, in bytes: W3C Trace Context requires programs to propagate that much. The
	// requests of a handler send it as a header, and servers refuse long headers.
	maxState = 512
	// maxField bounds other fields, in bytes: the bound of W3C Baggage, the longest of them.
	maxField = 8 << 10
)

// A pushed is a propagation.TextMapCarrier that writes into a job before its push.
type pushed struct{ *belay.RawJob }

// Get returns a field that the program has set.
func (p pushed) Get(key string) string {
	at := slices.IndexFunc(p.Extra, func(field job.Edit) bool { return field.Name == key })
	if at < 0 {
		return ""
	}
	var text string
	_ = json.Unmarshal([]byte(p.Extra[at].JSON), &text) // a value of another type is not a context
	return text
}

// Set sets a field, unless its name is one that a push would refuse.
func (p pushed) Set(key, value string) {
	field := job.SetString(key, value)
	if job.CheckExtra(field) != nil {
		return
	}
	p.Extra = append(slices.DeleteFunc(slices.Clone(p.Extra), func(f job.Edit) bool { return f.Name == key }), field)
}

// Keys returns the names of the fields.
func (p pushed) Keys() []string {
	keys := make([]string, len(p.Extra))
	for i, field := range p.Extra {
		keys[i] = field.Name
	}
	return keys
}

// A taken is a propagation.TextMapCarrier that reads a job's payload.
type taken struct{ *belay.Job }

// Get returns a field, if it is a string that is not too long.
func (t taken) Get(key string) string {
	maxBytes := maxField
	if key == "tracestate" {
		maxBytes = maxState
	}
	if raw, ok := t.RareField(key); !ok || len(raw) > maxBytes {
		return ""
	}
	text, _ := t.Text(key)
	return text
}

// Set does nothing: a payload never changes.
func (taken) Set(string, string) {}

// Keys returns nothing: OpenTelemetry's propagators do not call it.
func (taken) Keys() []string { return nil }
