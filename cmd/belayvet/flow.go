package main

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/cfg"
	"golang.org/x/tools/go/types/typeutil"
)

// enders are functions that do not return.
var enders = []string{"log.Fatal", "log.Fatalf", "log.Fatalln", "os.Exit", "runtime.Goexit"}

// flow is the graph of a function's blocks, which control goes through.
func (s *source) flow(body *ast.BlockStmt) *cfg.CFG {
	return cfg.New(body, func(call *ast.CallExpr) bool {
		switch called := typeutil.Callee(s.TypesInfo, call).(type) {
		case *types.Builtin:
			return called.Name() != "panic"
		case *types.Func:
			return !slices.Contains(enders, called.FullName())
		}
		return true
	})
}

// together reports whether two blocks are run together: who comes to the second has been in the first, or who
// has been in the first will come to the second before it ends or begins again. So the arms of an if are not,
// and neither are two ifs, whatever they ask.
func together(graph *cfg.CFG, first, second *cfg.Block) bool {
	if first == second {
		return true
	}
	entry := graph.Blocks[0]
	if !leads(entry, first, func(b *cfg.Block) bool { return b == second }) {
		return true
	}
	return !leads(first, second, func(b *cfg.Block) bool { return len(b.Succs) == 0 || slices.Contains(b.Succs, first) })
}

// leads reports whether there is a way from a block to one that is wanted, around another one.
func leads(from, around *cfg.Block, wanted func(*cfg.Block) bool) bool {
	seen := map[*cfg.Block]bool{around: true}
	var walk func(b *cfg.Block) bool
	walk = func(b *cfg.Block) bool {
		if seen[b] {
			return false
		}
		seen[b] = true
		return wanted(b) || slices.ContainsFunc(b.Succs, walk)
	}
	return walk(from)
}
