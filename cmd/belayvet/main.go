// Command belayvet checks a program's jobs, as go vet checks its Printf calls:
//
//	go install -C cmd/belayvet .                 in a clone of Belay
//	go vet -vettool=$(which belayvet) ./...      in your program
//
// It exists because every job may run twice: a worker can die after the work and before Redis has recorded
// it. The author of a handler must consider that and declare it in the definition:
//
//	idempotence  a definition has neither Idempotent nor NotIdempotent; a NotIdempotent has no reason
//
// Switch the check off by its name: -idempotence=false. Tests may define jobs without a declaration; examples
// may not, because they are copied. belayvet assumes that everything it cannot see is right, such as options
// that a function returns. So a report should be correct, but the lack of one proves nothing.
//
// It is a module of its own, so that programs which import Belay do not get its dependency.
package main

import (
	"flag"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"
	"golang.org/x/tools/go/ssa"
)

func main() {
	// Older versions had checks with these names, and build files may switch them off.
	for _, name := range []string{"onehandler", "uniqueeffects"} {
		flag.Bool(name, false, "no effect: kept so that build files which set it still work")
	}
	unitchecker.Main(idempotence)
}

var idempotence = &analysis.Analyzer{
	Name: "idempotence",
	Doc: `report job classes that do not declare whether they may run twice

Every job may run twice: its worker can die after the work and before Redis has recorded it. So a belay.Define has
Idempotent, or NotIdempotent with the reason why a second effect is acceptable.`,
	Requires: []*analysis.Analyzer{sources},
	Run: func(pass *analysis.Pass) (any, error) {
		s, _ := pass.ResultOf[sources].(*source)
		if s == nil {
			return nil, nil //nolint:nilnil // this analyzer has no result
		}
		for _, fn := range s.functions {
			calls(fn, func(call *ssa.Call) {
				switch name := called(call); {
				case s.inTest(call.Pos()):
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

// inTest reports whether a position is in a test that is not an example. Tests may define classes without a
// declaration; examples may not, because they are copied.
func (s *source) inTest(pos token.Pos) bool {
	test, isTest := strings.CutSuffix(filepath.Base(s.Fset.Position(pos).Filename), "_test.go")
	return isTest && !strings.HasPrefix(test, "example") && !strings.HasSuffix(test, "_example")
}

// checkDeclared checks the options of a call of Define. Options that it cannot see may be the declaration.
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
		pass.Reportf(define.Pos(), "%s has both Idempotent and NotIdempotent", class)
	case !yes && !no && all:
		pass.Reportf(define.Pos(),
			"%s has neither Idempotent nor NotIdempotent: its jobs run twice if a worker dies at the wrong moment", class)
	}
}

// isJobOption reports whether an option may also be given with a push: such options are no declaration.
func isJobOption(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && isBelay(named.Obj().Pkg()) && named.Obj().Name() == "JobOption"
}
