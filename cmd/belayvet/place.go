package main

import (
	"go/ast"
	"go/types"
)

// A place is a variable, or a field of one: where a server or a definition is. Two expressions of one place are the same
// thing, as long as nothing there gets another value; a place that does is none.
type place struct {
	root types.Object
	path string // of fields, ".app.Server"
}

// place is where an expression's value is; ok says that this is known.
func (s *source) place(e ast.Expr) (at place, ok bool) {
	switch e := ast.Unparen(e).(type) {
	case *ast.StarExpr:
		return s.place(e.X)
	case *ast.Ident, *ast.SelectorExpr:
		object := s.object(e)
		if object == nil || s.written[object] > 1 {
			return place{}, false
		}
		if of, ok := s.place(s.values[object]); ok { // another name of the same thing
			return of, true
		}
		if field, ok := e.(*ast.SelectorExpr); ok && s.TypesInfo.Selections[field] != nil {
			of, ok := s.place(field.X)
			return place{of.root, of.path + "." + field.Sel.Name}, ok
		}
		return place{root: object}, true
	}
	return place{}, false
}

// global says whether a place is the same in every function.
func (p place) global() bool {
	return p.root != nil && p.root.Pkg() != nil && p.root.Parent() == p.root.Pkg().Scope()
}

// in is the place as the caller of a function knows it, who hands over these places. ok is false if the caller cannot.
func (p place) in(caller map[types.Object]place) (at place, ok bool) {
	if p.global() {
		return p, true
	}
	of, ok := caller[p.root]
	return place{of.root, of.path + p.path}, ok
}
