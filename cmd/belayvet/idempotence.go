package main

import (
	"go/token"
	"go/types"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"
)

var idempotence = &analysis.Analyzer{
	Name: "idempotence",
	Doc: `report job classes that do not say whether they may run twice

Every job may: when its worker dies after the work was done and before that was known. So a belay.Define says Idempotent, or
NotIdempotent with the reason why a second effect is acceptable.`,
	Requires: []*analysis.Analyzer{sources},
	Run: func(pass *analysis.Pass) (any, error) {
		s, _ := pass.ResultOf[sources].(*source)
		if s == nil {
			return nil, nil //nolint:nilnil // this analyzer has no result
		}
		for _, fn := range s.functions {
			calls(fn, func(call *ssa.Call) {
				switch name := called(call); {
				case s.isThrownAway(call.Pos()):
				case name == "Define":
					s.checkDeclared(pass, call)
				case name == "NotIdempotent":
					if reason, known := text(call.Call.Args[0]); known && strings.TrimSpace(reason) == "" {
						pass.Reportf(call.Pos(), "NotIdempotent has no reason: say why a second effect is acceptable")
					}
				}
			})
		}
		return nil, nil //nolint:nilnil // this analyzer has no result
	},
}

// isThrownAway reports whether a position is in a test that is not an example. Tests define classes to throw
// away; examples are copied.
func (s *source) isThrownAway(pos token.Pos) bool {
	test, isTest := strings.CutSuffix(filepath.Base(s.Fset.Position(pos).Filename), "_test.go")
	return isTest && !strings.HasPrefix(test, "example") && !strings.HasSuffix(test, "_example")
}

// checkDeclared checks the options of a call of Define. It believes options that it cannot see.
func (s *source) checkDeclared(pass *analysis.Pass, define *ssa.Call) {
	class, known := text(define.Call.Args[0])
	if !known {
		class = "a class"
	}
	options, all := s.elements(define.Call.Args[1])
	given := map[string]bool{}
	for _, option := range options {
		name := called(s.value(option))
		given[name] = true
		all = all && (name != "" || isJobOption(s.value(option).Type()))
	}
	switch yes, no := given["Idempotent"], given["NotIdempotent"]; {
	case yes && no:
		pass.Reportf(define.Pos(), "%s says both Idempotent and NotIdempotent", class)
	case !yes && !no && all:
		pass.Reportf(define.Pos(),
			"%s says neither Idempotent nor NotIdempotent, and its jobs run twice when a worker dies at the wrong moment", class)
	}
}

// isJobOption reports whether an option is one that jobs may have, too: those say nothing of the class.
func isJobOption(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && isBelay(named.Obj().Pkg()) && named.Obj().Name() == "JobOption"
}
