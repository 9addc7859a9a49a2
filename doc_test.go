package belay_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The program in doc.go is the one that Example runs, and fits on a screen.
func TestFirstProgram(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(doc), "// # The first program\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "// # ")
	var program []string
	for line := range strings.Lines(section) {
		if code, indented := strings.CutPrefix(line, "//\t"); indented {
			program = append(program, code)
		}
	}
	require.NotEmpty(t, program)
	require.LessOrEqual(t, len(program), 22, "imports and empty lines are not counted")

	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, ran, found := strings.Cut(string(example), "\n)\n")
	require.True(t, found)
	ran, _, found = strings.Cut(ran, "func Example()")
	require.True(t, found)
	require.Equal(t, strings.ReplaceAll(ran, "\n\n", "\n"), "\n"+strings.Join(program, ""))
}
