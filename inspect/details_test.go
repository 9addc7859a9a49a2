package inspect

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

func TestDescribeReadsWhatThePayloadSays(t *testing.T) {
	t.Parallel()
	describe := func(payload string) *Details {
		e := newEntry(Dead(), lua.Entry{Bytes: payload, Score: "1"})
		require.Nil(t, e.Details, "a list does not pay for it")
		e.Describe()
		return e.Details
	}
	require.Nil(t, describe("garbage"))
	plain := sample("A", "1")
	require.Equal(t, &Details{Retry: "default", Payload: json.RawMessage(plain)}, describe(plain))
	full := sample("A", "1", `"retry":5`, `"tags":["billing","x"]`, `"meta":{"tenant":"7"}`, `"locale":"de"`, `"belay_timeout_ms":1500`,
		`"expiry":1700000000.5`, `"belay_deadline_ms":1700000001000`, `"belay_tick":{"name":"nightly"}`,
		`"belay_batch":"import-42/calls"`, `"belay_batch_ended":"rows/calls"`)
	require.Equal(t, &Details{
		Tags: []string{"billing", "x"}, Meta: map[string]string{"tenant": "7", "locale": "de"}, Retry: "5", Timeout: Seconds{1500 * time.Millisecond},
		StartBy: time.Unix(1700000000, 5e8).UTC(), Deadline: time.Unix(1700000001, 0).UTC(), Periodic: "nightly",
		Batch: "import-42", CallbackOf: "rows", Payload: json.RawMessage(full),
	}, describe(full))
	require.Equal(t, &Details{Retry: "default", Payload: json.RawMessage(sample("A", "1", `"belay_batch":"<a>"`, `"belay_batch_ended":7`))},
		describe(sample("A", "1", `"belay_batch":"<a>"`, `"belay_batch_ended":7`)), "another program wrote them")
	require.Equal(t, "never", describe(sample("A", "1", `"retry":false`, `"tags":"none"`)).Retry)
}
