package belay_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/walk.md names functions where they are. A file that was renamed, or a function that moved, changes the row.
// A plain job, the first table, passes few files, and each of them has one row.
func TestReadersFindTheFunctionsOfTheWalk(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("docs/walk.md")
	require.NoError(t, err)
	code := regexp.MustCompile("`([^`]+)`")
	rows, plain, inPlain := 0, make(map[string]bool), true
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[2], ".go`") {
			inPlain = inPlain && (len(plain) == 0 || len(cells) >= 4)
			continue
		}
		rows++
		path := code.FindStringSubmatch(cells[2])[1]
		if inPlain {
			require.False(t, plain[path], "docs/walk.md: %s has two rows", path)
			plain[path] = true
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		declared := make(map[string]bool)
		for _, decl := range file.Decls {
			if function, is := decl.(*ast.FuncDecl); is {
				declared[function.Name.Name] = true
			}
		}
		for _, name := range code.FindAllStringSubmatch(cells[3], -1) {
			require.True(t, declared[name[1]], "docs/walk.md: %s has no function %s", path, name[1])
		}
	}
	require.Greater(t, rows, 30, "rows of both tables")
	require.LessOrEqual(t, len(plain), 27, "files that a plain job passes")
	require.Greater(t, len(plain), 20, "the first table has its rows")
}
