package belayotel_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	belayotel "github.com/belayq/belay/contrib/otel"
)

func sendWelcome(context.Context, string) error { return nil }

// The program has set up OpenTelemetry's SDK, as for any other library. Push and Run use its global providers.
func Example() {
	belay.Main(func(ctx context.Context, server *belay.Server) error {
		server.Client().Use("otel", belayotel.Push(belayotel.Config{}), belay.Place{Last: true})
		server.Use("otel", belayotel.Run(belayotel.Config{}), belay.Place{First: true})
		Welcome.Handle(server, sendWelcome)
		return nil
	}, belay.MainConfig{})
}

// The Go in the section "Tracing" of docs/operations.md is that of Example, which compiles.
func TestTheGuideHasTheExample(t *testing.T) {
	t.Parallel()
	read := func(file string) string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(text)
	}
	_, section, found := strings.Cut(read("../../docs/operations.md"), "\n## Tracing\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	_, code, found := strings.Cut(section, "```go\n")
	require.True(t, found)
	code, _, _ = strings.Cut(code, "```")
	_, example, _ := strings.Cut(read("example_test.go"), "func Example() {\n")
	example, _, _ = strings.Cut(example, "\n}\n")
	require.Equal(t, strings.ReplaceAll(example, "\n\t", "\n"), "\t"+strings.TrimSuffix(code, "\n"))
}

// go.mod requires the version of Belay that this module was tested with: a release sets both (see
// CONTRIBUTING.md).
func TestRequiresTheBelayOfItsCommit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	require.Contains(t, string(text), "\tgithub.com/belayq/belay v"+belay.Version+"\n")
}
