package main

import (
	"cmp"
	"go/ast"
	"path/filepath"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/cfg"
)

var oneHandler = &analysis.Analyzer{
	Name: "onehandler",
	Doc: `report classes that get two handlers on one server

A second handler would hide the first, so the program panics when it starts. Handlers in functions of the same
package are seen, too, if they are not registered under a condition.`,
	Requires: []*analysis.Analyzer{definitions},
	Run: func(pass *analysis.Pass) (any, error) {
		c, _ := pass.ResultOf[definitions].(*classes)
		if c == nil {
			return nil, nil //nolint:nilnil // this analyzer has no result
		}
		r := newRegistrar(c)
		for _, file := range pass.Files {
			ast.Inspect(file, func(node ast.Node) bool {
				switch fn := node.(type) {
				case *ast.FuncDecl:
					if fn.Body != nil {
						r.check(pass, fn.Body)
					}
				case *ast.FuncLit:
					r.check(pass, fn.Body)
				}
				return true
			})
		}
		return nil, nil //nolint:nilnil // this analyzer has no result
	},
}

// A step is a registration with the block of its function that it is in.
type step struct {
	registration
	block *cfg.Block
}

// check reports what one function registers twice.
func (r *registrar) check(pass *analysis.Pass, body *ast.BlockStmt) {
	if len(r.in(body)) < 2 {
		return // most functions need no graph
	}
	graph := r.flow(body)
	var steps []step
	for _, block := range graph.Blocks {
		for _, node := range block.Nodes {
			for _, its := range r.in(node) {
				if block.Live {
					steps = append(steps, step{its, block})
				}
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at.Pos(), b.at.Pos()) })
	for i, second := range steps {
		at := slices.IndexFunc(steps[:i], func(first step) bool {
			return first.server == second.server && first.class == second.class && first.at != second.at &&
				together(graph, first.block, second.block)
		})
		if at >= 0 {
			first := r.Fset.Position(steps[at].pos)
			pass.ReportRangef(second.at, "%s gets a second handler on this server, which is refused when the program starts; the first is at %s:%d",
				second.class, filepath.Base(first.Filename), first.Line)
		}
	}
}

// String is the class as a message names it.
func (k classKey) String() string {
	if k.name != "" {
		return k.name
	}
	return k.root.Name() + k.path
}
