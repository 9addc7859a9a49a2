package belaytest_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
)

// The arguments of one class in five releases.
type (
	greeting struct {
		UserID int
		Name   string
	}
	inserted struct {
		UserID, TeamID int
		Name           string
	}
	swapped struct{ UserID, Age int }
	added   struct {
		UserID int
		Name   string
		Locale string
	}
)

// verdict is a test that records why it failed.
type verdict struct {
	testing.TB
	text string
}

func (v *verdict) Helper() {}

func (v *verdict) Fatalf(format string, args ...any) {
	v.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// wire returns why Wire fails; "" if it does not.
func wire[T any](class string, args T, want string, options ...belay.DefineOption) string {
	v := &verdict{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		belaytest.Wire(v, belay.Define[T](class, options...), args, want)
	}()
	<-done
	return v.text
}

func TestWire(t *testing.T) {
	t.Parallel()
	const stored = `{"class":"Greet","args":[42,"Ada"]}`
	require.Empty(t, wire("Greet", greeting{42, "Ada"}, stored))
	require.Empty(t, wire("Greet", greeting{42, "Ada"}, `{ "args": [42, "\u0041da"], "class": "Greet" }`), "any spelling")
	require.Empty(t, wire("Greet", greeting{42, "Ada"}, `{"class":"Greet","args":[{"UserID":42,"Name":"Ada"}]}`, belay.NamedArgs()))
	for name, c := range map[string]struct {
		failure string
		want    []string
	}{
		"a field in the middle": {wire("Greet", inserted{42, 7, "Ada"}, stored), []string{
			`{"class":"Greet","args":[42,7,"Ada"]}`, stored, "the new code fails:", "argument 2 (TeamID): a string, where int is wanted",
		}},
		"another field of the same type": {wire("Greet", swapped{42, 7}, `{"class":"Greet","args":[7,42]}`), []string{
			"of which the new code makes\n\t{UserID:7 Age:42}",
		}},
		"a field at the end": {wire("Greet", added{42, "Ada", "de"}, stored), []string{
			`[42,"Ada","de"]`, "{UserID:42 Name:Ada Locale:}", "deploy workers before producers",
		}},
		"another class": {wire("Hello", greeting{42, "Ada"}, stored), []string{
			`the wire form of Hello has changed`, "no handler for the class Greet",
		}},
		"no JSON": {wire("Greet", greeting{42, "Ada"}, `[42,"Ada"]`), []string{`it must be ` + stored}},
	} {
		for _, says := range c.want {
			require.Contains(t, c.failure, says, name)
		}
	}
}
