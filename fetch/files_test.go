package fetch

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files of this package have an order in which each calls only those behind it, but for calls of loop.go,
// which anything may make: so that a reader follows a run downwards, and comes back to the loop only.
func TestCallsBetweenFilesGoDownFromTheLoop(t *testing.T) {
	t.Parallel()
	calls := fileCalls(t)
	require.NotEmpty(t, calls["loop.go"], "nothing was read")
	delete(calls, "loop.go")
	for len(calls) > 0 {
		before := len(calls)
		for file, called := range calls {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(called)), func(callee string) bool { return calls[callee] != nil }) {
				delete(calls, file) // it calls only files below
			}
		}
		if len(calls) == before {
			for file, called := range calls {
				for callee, names := range called {
					if calls[callee] != nil {
						t.Errorf("%s calls %s: %s", file, callee, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
					}
				}
			}
			t.Fatal("these files call each other in a circle")
		}
	}
}

// fileCalls returns, for each file, the functions of other files that it calls.
func fileCalls(t *testing.T) map[string]map[string]map[string]bool {
	t.Helper()
	set := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	// Other packages of the module are not read: what they declare is unknown, and no file of this package.
	config := types.Config{Importer: importer.Default(), Error: func(error) {}}
	_, _ = config.Check("fetch", set, files, info)
	calls := make(map[string]map[string]map[string]bool)
	for _, file := range files {
		calls[set.Position(file.Pos()).Filename] = make(map[string]map[string]bool)
	}
	for use, object := range info.Uses {
		function, ok := object.(*types.Func)
		if !ok || function.Pkg() == nil || function.Pkg().Path() != "fetch" {
			continue
		}
		from, to := set.Position(use.Pos()).Filename, set.Position(function.Pos()).Filename
		if from == to {
			continue
		}
		if calls[from][to] == nil {
			calls[from][to] = make(map[string]bool)
		}
		calls[from][to][function.Name()] = true
	}
	return calls
}
