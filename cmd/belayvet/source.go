package main

import (
	"go/ast"
	"go/constant"
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
	*writes
	// names are the places that variables and fields are other names of.
	names map[types.Object]place
}

func newSource(pass *analysis.Pass) *source {
	s := &source{pass, newWrites(pass.Pkg), map[types.Object]place{}}
	for _, file := range pass.Files {
		ast.PreorderStack(file, nil, func(node ast.Node, around []ast.Node) bool {
			s.read(node, around)
			return true
		})
	}
	return s
}

// speaksOfBelay reports whether anything in a package is Belay's. It need not import that: another package may
// hand it a server, and a third one a definition.
func speaksOfBelay(pass *analysis.Pass) bool {
	for _, object := range pass.TypesInfo.Uses {
		if isBelay(object.Pkg()) {
			return true
		}
	}
	return false
}

func isBelay(pkg *types.Package) bool { return pkg != nil && pkg.Path() == belayPath }

// object is the variable or field that an expression names, or nil. A generic struct has one of each,
// whatever its types.
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
		return variable.Origin()
	}
	return nil
}

// value follows variables and fields of this package that get one value to this value. Those that lead back
// to themselves have none.
func (s *source) value(e ast.Expr) ast.Expr {
	for seen := map[types.Object]bool{}; ; {
		e = ast.Unparen(e)
		object := s.object(e)
		if object == nil || seen[object] || s.only(object) == nil {
			return e
		}
		seen[object] = true
		e = s.only(object)
	}
}

// called is the name of the function of Belay that an expression calls, "Define" or "Server.HandleRaw", or
// "".
func (s *source) called(e ast.Expr) string {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return ""
	}
	fn := typeutil.StaticCallee(s.TypesInfo, call)
	if fn == nil || !isBelay(fn.Pkg()) {
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

// list are a call's arguments from the given one on, with the elements of a slice that is spread, and whether
// these are all.
func (s *source) list(call *ast.CallExpr, from int) (elements []ast.Expr, all bool) {
	if len(call.Args) < from {
		return nil, false
	}
	elements = call.Args[from:]
	if !call.Ellipsis.IsValid() {
		_, answersForAll := s.TypesInfo.TypeOf(call.Args[0]).(*types.Tuple) // f(g()), and g has several results
		return elements, !answersForAll
	}
	switch spread := s.value(elements[len(elements)-1]).(type) {
	case *ast.CompositeLit:
		return spread.Elts, true
	case *ast.Ident:
		return nil, s.TypesInfo.Types[spread].IsNil()
	}
	return nil, false
}
