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
func TestReadersFindTheFunctionsOfTheWalk(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("docs/walk.md")
	require.NoError(t, err)
	code := regexp.MustCompile("`([^`]+)`")
	rows := 0
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[2], ".go`") {
			continue
		}
		rows++
		path := code.FindStringSubmatch(cells[2])[1]
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
	require.Greater(t, rows, 30, "rows of the table")
}
