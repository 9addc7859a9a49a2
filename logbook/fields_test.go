package logbook

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestEachField(t *testing.T) {
	t.Parallel()
	t.Run("finds all fields that zerolog wrote", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			names := rapid.SliceOfDistinct(rapid.StringMatching(`[^lm]{1,4}|["\\{}\[\],:]{1,3}`), rapid.ID[string]).Draw(t, "names")
			message := rapid.String().Draw(t, "message")
			var out bytes.Buffer
			log := zerolog.New(&out)
			event := log.Info()
			want := map[string]any{}
			for _, name := range names {
				value := rapid.OneOf(
					rapid.Map(rapid.String(), func(s string) any { return s }),
					rapid.Map(rapid.Float64Range(-1e9, 1e9), func(f float64) any { return f }),
					rapid.Map(rapid.Bool(), func(b bool) any { return b }),
					rapid.Map(rapid.SliceOf(rapid.StringMatching(`["\\{}\[\],: ]*`)), func(list []string) any {
						return map[string]any{"a,b": list, "c": nil}
					}),
				).Draw(t, "value")
				event.Interface(name, value)
			}
			event.Msg(message)
			require.NoError(t, json.Unmarshal(out.Bytes(), &want))

			found := map[string]any{"level": "info"}
			text := eachField(out.Bytes(), func(name string, value []byte) {
				var of any
				require.NoError(t, json.Unmarshal(value, &of), "%s", value)
				found[name] = of
				slogValue(value)
			})
			if message != "" { // zerolog leaves out an empty one
				found["message"] = text
			}
			require.Equal(t, want, found)
		})
	})
	t.Run("treats other text as a message", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"", "x", `{"a":`, `[1]`, "\xbf\x65level\xff"} {
			require.Equal(t, text, eachField([]byte(text), func(string, []byte) { t.Error("a field") }))
		}
		require.Equal(t, "m", eachField([]byte(" { \"message\" : \"m\" } \n"), func(string, []byte) { t.Error("a field") }))
		require.Empty(t, eachField([]byte("{}"), func(string, []byte) { t.Error("a field") }))
	})
}
