package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// belayPath is the package whose functions are known here by name.
const belayPath = "github.com/belayq/belay"

// A source is one package's files, with what its variables are for certain.
type source struct {
	*analysis.Pass
	// written counts how often a variable or field gets a value; one whose address is taken counts as written often.
	written map[types.Object]int
	// values are the last that variables and fields get.
	values map[types.Object]ast.Expr
	// targets are what expressions are assigned to: values, the other way round.
	targets map[ast.Expr]ast.Expr
}

func newSource(pass *analysis.Pass) *source {
	s := &source{pass, map[types.Object]int{}, map[types.Object]ast.Expr{}, map[ast.Expr]ast.Expr{}}
	for _, file := range pass.Files {
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ValueSpec:
				for i, name := range node.Names {
					if len(node.Values) > 0 {
						s.write(name, one(node.Values, i, len(node.Names)))
					}
				}
			case *ast.AssignStmt:
				for i, target := range node.Lhs {
					s.write(target, one(node.Rhs, i, len(node.Lhs)))
				}
			case *ast.RangeStmt:
				s.write(node.Key, nil)
				s.write(node.Value, nil)
			case *ast.KeyValueExpr:
				if field, ok := s.object(node.Key).(*types.Var); ok && field.IsField() {
					s.write(node.Key, node.Value)
				}
			case *ast.Field: // a parameter has a value from the beginning
				for _, name := range node.Names {
					if parameter, ok := s.object(name).(*types.Var); ok && !parameter.IsField() {
						s.write(name, nil)
					}
				}
			case *ast.UnaryExpr:
				if node.Op == token.AND {
					s.write(node.X, nil)
					s.write(node.X, nil)
				}
			}
			return true
		})
	}
	return s
}

// one is the value that belongs to the target at i, or nil if a call answers for all.
func one(values []ast.Expr, i, targets int) ast.Expr {
	if len(values) != targets {
		return nil
	}
	return values[i]
}

func (s *source) write(target, value ast.Expr) {
	object := s.object(target)
	if object == nil {
		return
	}
	if s.written[object]++; value != nil {
		value = ast.Unparen(value)
		s.values[object], s.targets[value] = value, target
	}
}

// object is the variable or field that an expression names, or nil.
func (s *source) object(e ast.Expr) types.Object {
	var object types.Object
	switch e := e.(type) {
	case *ast.ParenExpr:
		return s.object(e.X)
	case *ast.Ident:
		object = s.TypesInfo.ObjectOf(e)
	case *ast.SelectorExpr:
		object = s.TypesInfo.ObjectOf(e.Sel)
	}
	if variable, ok := object.(*types.Var); ok {
		return variable
	}
	return nil
}

// value follows variables and fields of this package that get one value to this value.
func (s *source) value(e ast.Expr) ast.Expr {
	e = ast.Unparen(e)
	object := s.object(e)
	if object == nil || s.written[object] != 1 || s.values[object] == nil {
		return e
	}
	return s.value(s.values[object])
}

// called is the name of the function of Belay that an expression calls, "Define" or "Server.HandleClass", or "".
func (s *source) called(e ast.Expr) string {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return ""
	}
	fn := typeutil.StaticCallee(s.TypesInfo, call)
	if fn == nil || fn.Pkg() == nil || fn.Pkg().Path() != belayPath {
		return ""
	}
	return strings.TrimPrefix(receiver(fn)+"."+fn.Name(), ".")
}

// callOf is the call of a function of Belay that an expression stands for, or nil if that is something else.
func (s *source) callOf(name string, e ast.Expr) *ast.CallExpr {
	call, _ := s.value(e).(*ast.CallExpr)
	if call == nil || s.called(call) != name {
		return nil
	}
	return call
}

// receiver is the name of a method's type, or "".
func receiver(fn *types.Func) string {
	recv := fn.Signature().Recv()
	if recv == nil {
		return ""
	}
	t := recv.Type()
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	if named, ok := t.(*types.Named); ok {
		return named.Obj().Name()
	}
	return ""
}

// text is the value of a constant string.
func (s *source) text(e ast.Expr) (value string, known bool) {
	of := s.TypesInfo.Types[e].Value
	if of == nil || of.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(of), true
}

// list are a call's arguments from the given one on, with the elements of a slice that is spread, and whether these are
// all.
func (s *source) list(call *ast.CallExpr, from int) (elements []ast.Expr, all bool) {
	if len(call.Args) < from {
		return nil, false
	}
	elements = call.Args[from:]
	if !call.Ellipsis.IsValid() {
		return elements, true
	}
	switch spread := s.value(elements[len(elements)-1]).(type) {
	case *ast.CompositeLit:
		return spread.Elts, true
	case *ast.Ident:
		return nil, s.TypesInfo.Types[spread].IsNil()
	}
	return nil, false
}
