package main

import (
	"go/ast"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis"
)

var idempotence = &analysis.Analyzer{
	Name: "idempotence",
	Doc: `report job classes that do not say whether they may run twice

Every job may: when its worker dies after the work was done and before that was known. So a belay.Define says Idempotent, or
NotIdempotent with the reason why a second effect is acceptable.`,
	Requires: []*analysis.Analyzer{definitions},
	Run: func(pass *analysis.Pass) (any, error) {
		c, _ := pass.ResultOf[definitions].(*classes)
		if c == nil {
			return nil, nil //nolint:nilnil // this analyzer has no result
		}
		for _, d := range c.defined {
			if c.mayBeLax(d.call) {
				continue
			}
			c.checkDeclared(pass, d)
		}
		c.checkReasons(pass)
		return nil, nil //nolint:nilnil // this analyzer has no result
	},
}

// mayBeLax reports whether a call is in a test that is no example. Tests define classes to throw away; examples
// are copied.
func (s *source) mayBeLax(call *ast.CallExpr) bool {
	name := filepath.Base(s.Fset.Position(call.Pos()).Filename)
	test, isTest := strings.CutSuffix(name, "_test.go")
	return isTest && !strings.HasPrefix(test, "example") && !strings.HasSuffix(test, "_example")
}

func (c *classes) checkDeclared(pass *analysis.Pass, d *definition) {
	yes, no := d.options["Idempotent"], d.options["NotIdempotent"]
	switch {
	case yes != nil && no != nil:
		pass.ReportRangef(no, "%s says both Idempotent and NotIdempotent", d.name())
	case yes == nil && no == nil && !d.guessed:
		pass.ReportRangef(d.call, "%s says neither Idempotent nor NotIdempotent, and its jobs run twice when a worker dies at the wrong moment", d.name())
	}
}

// checkReasons looks at every NotIdempotent, whatever becomes of it.
func (s *source) checkReasons(pass *analysis.Pass) {
	for _, file := range s.Files {
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || s.called(call) != "NotIdempotent" || s.mayBeLax(call) {
				return true
			}
			if reason, known := s.text(call.Args[0]); known && strings.TrimSpace(reason) == "" {
				pass.ReportRangef(call, "NotIdempotent has no reason: say why a second effect is acceptable")
			}
			return true
		})
	}
}
