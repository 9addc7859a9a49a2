package main

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

var uniqueEffects = &analysis.Analyzer{
	Name: "uniqueeffects",
	Doc: `report unique jobs that are not idempotent

Two pushes of a class that is NotIdempotent are two effects, so Unique refuses none of them, which few expect: duplicates are
stored and marked by the field duplicate-of. Who wants just that switches this check off.`,
	Requires: []*analysis.Analyzer{definitions},
	Run: func(pass *analysis.Pass) (any, error) {
		c, _ := pass.ResultOf[definitions].(*classes)
		if c == nil {
			return nil, nil //nolint:nilnil // nobody asks this analyzer for a result
		}
		for _, d := range c.defined {
			c.checkUnique(pass, d, d.options["Unique"])
		}
		for _, file := range pass.Files {
			ast.Inspect(file, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok {
					c.checkPush(pass, call)
				}
				return true
			})
		}
		return nil, nil //nolint:nilnil // nobody asks this analyzer for a result
	},
}

// optionsAt says which argument is the first option of a push.
var optionsAt = map[string]int{"Definition.Item": 1, "Definition.Enqueue": 3, "Definition.EnqueueMany": 3}

// checkPush looks at what one push says beside its class.
func (c *classes) checkPush(pass *analysis.Pass, call *ast.CallExpr) {
	from, isPush := optionsAt[c.called(call)]
	method, isMethod := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !isPush || !isMethod {
		return
	}
	d := c.definitionOf(method.X)
	if d == nil {
		return
	}
	options, _ := c.list(call, from)
	var unique ast.Expr
	for _, option := range options {
		switch c.called(c.value(option)) {
		case "Unique":
			unique = within(call, option)
		case "NotUnique", "": // it takes that back, or may
			unique = nil
		}
	}
	c.checkUnique(pass, d, unique)
}

// checkUnique looks at a class with the Unique that it or a push of it says, if any.
func (c *classes) checkUnique(pass *analysis.Pass, d *definition, unique ast.Expr) {
	if unique != nil && d.options["NotIdempotent"] != nil && !c.mayBeLax(d.call) {
		pass.ReportRangef(unique, "%s is NotIdempotent, so Unique refuses none of its duplicates: they are stored, and marked duplicate-of", d.name())
	}
}
