package activejob

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/job"
)

// A golden is the recorded payloads of one version of Rails: see testdata/README.md.
type golden struct {
	Rails     string
	Envelope  map[string]any
	Cattr     json.RawMessage
	Arguments map[string]struct {
		Stored      json.RawMessage
		Unsupported string
	}
}

// goldens returns the recorded versions. Each has a row for each name in wanted, and no other.
func goldens(t *testing.T) (versions []golden) {
	t.Helper()
	files, err := filepath.Glob("testdata/rails-*.json")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var version golden
		require.NoError(t, json.Unmarshal(text, &version), file)
		require.Equal(t, "testdata/rails-"+version.Rails+".json", file)
		require.Len(t, version.Arguments, len(wanted), file)
		versions = append(versions, version)
	}
	require.Len(t, versions, 7)
	return versions
}

// wanted is what a handler gets for each recorded value, with all versions.
var wanted = map[string]string{
	"nil":                             `null`,
	"Integer":                         `9007199254740993`,
	"Float":                           `1.0`,
	"String":                          `"é<_aj_>"`,
	"Array":                           `[1,["a"]]`,
	"Hash with strings":               `{"a":1}`,
	"Hash with symbols":               `{"days":172800000000000,"template":"short"}`,
	"Hash with both":                  `{"a":1,"b":"c"}`,
	"Hash with names of Rails":        `{"time_zone":"x","value":1}`,
	"HashWithIndifferentAccess":       `{"a":"b"}`,
	"keywords":                        `{"kind":"bill","template":"short"}`,
	"GlobalID":                        `"gid://shop/User/7"`,
	"Symbol":                          `"high"`,
	"Module":                          `"Billing"`,
	"Class":                           `"String"`,
	"Date":                            `"2026-11-23"`,
	"Time":                            `"2026-11-23T08:30:00.123456789+01:00"`,
	"Time in UTC":                     `"2026-11-23T07:30:00.123456789Z"`,
	"DateTime":                        `"2026-11-23T08:30:00.123456789+01:00"`,
	"TimeWithZone":                    `"2026-11-23T08:30:00.123456789+01:00"`,
	"TimeWithZone in UTC":             `"2026-11-23T07:30:00.123456789Z"`,
	"TimeWithZone by Rails' name":     `"2026-11-23T02:30:00.123456789-05:00"`,
	"a time from now":                 `"2026-11-23T08:35:00.123456789+01:00"`,
	"Duration":                        `90000000000`,
	"Duration of a Float":             `1500000000`,
	"Duration of a month":             `2629746000000000`,
	"Duration, negative, of parts":    `-3720000000000`,
	"BigDecimal":                      `"12.5"`,
	"BigDecimal by its serializer":    `"12.5"`,
	"Range":                           `{"begin":1,"end":3,"exclude_end":false}`,
	"Range of times, exclusive":       `{"begin":"2026-11-23T08:30:00.123456789+01:00","end":"2026-11-23T08:31:00.123456789+01:00","exclude_end":true}`,
	"Range of symbols without an end": `{"begin":"a","end":null,"exclude_end":false}`,
	"Money of its own serializer":     `{"currency":"EUR","value":125}`,
}

func TestAHandlerGetsTheSameFromEachVersionOfRails(t *testing.T) {
	t.Parallel()
	for _, version := range goldens(t) {
		for name, want := range wanted {
			row := version.Arguments[name]
			if row.Unsupported != "" { // this version of Rails cannot store the value
				continue
			}
			envelope := version.Envelope
			envelope["arguments"] = []json.RawMessage{row.Stored}
			text, err := json.Marshal([]any{envelope})
			require.NoError(t, err)
			j, err := job.Parse(`{"class":"Sidekiq::ActiveJob::Wrapper","wrapped":"JobOfRails","jid":"1","args":` + string(text) + `}`)
			require.NoError(t, err)
			handled := false
			require.NoError(t, unwrap(func(ctx context.Context, own *belay.Job) error {
				handled = true
				require.JSONEq(t, want, own.Args()[0], "%s: %s", version.Rails, name)
				info, _ := Info(ctx)
				require.Equal(t, "JobOfRails", info.JobClass)
				return nil
			})(t.Context(), j))
			require.True(t, handled)
		}
	}
}

// Go's types read what each version stored, as the type that a handler declares.
func TestATimeOfEachVersionOfRailsIsATime(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 11, 23, 7, 30, 0, 123456789, time.UTC)
	for _, version := range goldens(t) {
		for _, name := range []string{"Time", "Time in UTC", "DateTime", "TimeWithZone", "TimeWithZone in UTC", "TimeWithZone by Rails' name"} {
			var at Time
			require.NoError(t, json.Unmarshal(version.Arguments[name].Stored, &at), "%s: %s", version.Rails, name)
			require.True(t, want.Equal(at.Time), "%s: %s", version.Rails, name)
		}
	}
}

type current struct {
	UserID int64         `json:"user_id"`
	Tenant string        `json:"tenant"`
	At     time.Time     `json:"at"`
	Wait   time.Duration `json:"wait"`
	User   string        `json:"user"`
}

// Sidekiq 8 stores CurrentAttributes as ActiveJob's pairs, 7 stored an object.
func TestCurrentAttributesOfEachVersionAreRead(t *testing.T) {
	t.Parallel()
	want := current{7, "acme", time.Date(2026, 11, 23, 7, 30, 0, 123456789, time.UTC), 90 * time.Second, "gid://shop/User/7"}
	for _, version := range goldens(t) {
		got, err := Attributes[current](string(version.Cattr))
		require.NoError(t, err, version.Rails)
		got.At = got.At.UTC()
		require.Equal(t, want, got, version.Rails)
	}
	got, err := Attributes[current](`{"user_id":7,"tenant":"acme"}`)
	require.NoError(t, err)
	require.Equal(t, current{UserID: 7, Tenant: "acme"}, got)
	names, err := Attributes[map[string]any](`[[{"_aj_serialized":"ActiveJob::Serializers::SymbolSerializer","value":"id"},9007199254740993]]`)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"id": json.Number("9007199254740993")}, names)
	for _, none := range []string{"", "null", "[]", "{}"} {
		got, err := Attributes[current](none)
		require.NoError(t, err, none)
		require.Zero(t, got, none)
	}
	for _, unfit := range []string{`[["SECRET"]]`, `[[1,"SECRET"]]`, `"SECRET"`, `[["user_id","SECRET"]]`, `{"user_id":"SECRET"}`, `[`} {
		got, err := Attributes[current](unfit)
		require.ErrorContains(t, err, "do not fit", unfit)
		require.NotContains(t, err.Error(), "SECRET")
		require.Zero(t, got, unfit)
	}
}
