package main

import (
	"go/ast"
	"go/types"
	"reflect"

	"golang.org/x/tools/go/analysis"
)

// definitions finds every call of belay.Define in a package. It reports nothing.
var definitions = &analysis.Analyzer{
	Name:       "belaydefinitions",
	Doc:        "find the calls of belay.Define",
	Run:        func(pass *analysis.Pass) (any, error) { return findDefinitions(pass), nil },
	ResultType: reflect.TypeFor[*classes](),
}

// classes are the job classes that a package defines.
type classes struct {
	*source
	defined []*definition
	of      map[*ast.CallExpr]*definition
}

// A definition is a call of Define.
type definition struct {
	call *ast.CallExpr
	// class is its name; known says that it is a constant.
	class string
	known bool
	// options are the arguments of Define that are calls of Belay's functions, by function name.
	options map[string]ast.Expr
	// guessed: there are options of which it cannot be seen what they say.
	guessed bool
}

// findDefinitions is nil for a package that has nothing to do with Belay: there is nothing to find in it, and
// most are such.
func findDefinitions(pass *analysis.Pass) *classes {
	if !speaksOfBelay(pass) {
		return nil
	}
	s := newSource(pass)
	c := &classes{source: s, of: map[*ast.CallExpr]*definition{}}
	for _, file := range s.Files {
		ast.Inspect(file, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok && s.called(call) == "Define" && len(call.Args) > 0 {
				d := s.definition(call)
				c.defined = append(c.defined, d)
				c.of[call] = d
			}
			return true
		})
	}
	return c
}

func (s *source) definition(call *ast.CallExpr) *definition {
	d := &definition{call: call, options: map[string]ast.Expr{}}
	d.class, d.known = s.text(call.Args[0])
	options, all := s.list(call, 1)
	d.guessed = !all
	for _, option := range options {
		name := s.called(s.value(option))
		if name != "" {
			d.options[name] = within(call, option)
		} else if !s.isJobOption(option) {
			d.guessed = true
		}
	}
	return d
}

// within is where to speak of a call's option: the option, or the call if the option stands in a list
// elsewhere.
func within(call *ast.CallExpr, option ast.Expr) ast.Expr {
	if option.Pos() < call.Pos() || option.End() > call.End() {
		return call
	}
	return option
}

// isJobOption reports whether an option is one that jobs may have, too: those say nothing of the class.
func (s *source) isJobOption(option ast.Expr) bool {
	named, ok := types.Unalias(s.TypesInfo.TypeOf(option)).(*types.Named)
	return ok && isBelay(named.Obj().Pkg()) && named.Obj().Name() == "JobOption"
}

// name is how to speak of the class.
func (d *definition) name() string {
	if d.known {
		return d.class
	}
	return "a class"
}

// definitionOf is the definition that an expression stands for, or nil if it is made elsewhere.
func (c *classes) definitionOf(e ast.Expr) *definition {
	call, _ := c.value(e).(*ast.CallExpr)
	return c.of[call]
}
