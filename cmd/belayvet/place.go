package main

import (
	"go/ast"
	"go/token"
	"go/types"
)

// A place is a variable, or a field of one: where a server or a definition is. Two expressions of one place
// are the same thing, as long as nothing there gets another value; a place that does is none.
type place struct {
	root types.Object
	path string // of fields, ".app.Server"
	// here: something on the way gets its value where this is known, so that another call finds another thing.
	here bool
}

// place is where an expression's value is; ok says that this is known.
func (s *source) place(e ast.Expr) (at place, ok bool) {
	switch e := ast.Unparen(e).(type) {
	case *ast.StarExpr:
		return s.place(e.X)
	case *ast.Ident:
		return s.variable(s.object(e), e.Pos())
	case *ast.SelectorExpr:
		if s.TypesInfo.Selections[e] == nil {
			return s.variable(s.object(e), e.Pos())
		}
		of, ok := s.operand(e)
		return s.field(of, ok, s.object(e), e.Pos())
	}
	return place{}, false
}

// variable is the place of a variable that is spoken of at a position, under whatever name.
func (s *source) variable(object types.Object, pos token.Pos) (at place, ok bool) {
	if object == nil || !s.fixed(object, pos) {
		return place{}, false
	}
	if of, ok := s.behind(object); ok {
		return of, true
	}
	return place{root: object, here: s.isSet(object)}, true
}

// field is the place of a field of what is at a place, if that is known.
func (s *source) field(of place, known bool, object types.Object, pos token.Pos) (at place, ok bool) {
	if object == nil || !s.fixed(object, pos) {
		return place{}, false
	}
	if of, ok := s.behind(object); ok {
		return of, true
	}
	return place{of.root, of.path + "." + object.Name(), of.here || s.isSet(object)}, known
}

// operand is the place of what has the field or method that is selected: what stands before the dot, or what
// is embedded in it.
func (s *source) operand(e *ast.SelectorExpr) (at place, ok bool) {
	selection := s.TypesInfo.Selections[e]
	if selection == nil || selection.Kind() == types.MethodExpr {
		return place{}, false
	}
	at, ok = s.place(e.X)
	of, embedded := selection.Recv(), selection.Index()
	for _, i := range embedded[:len(embedded)-1] {
		its := structOf(of)
		if its == nil {
			return place{}, false
		}
		at, ok = s.field(at, ok, its.Field(i).Origin(), e.Pos())
		of = its.Field(i).Type()
	}
	return at, ok
}

// structOf is the struct that a type is or points to, or nil.
func structOf(t types.Type) *types.Struct {
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		t = pointer.Elem()
	}
	of, _ := t.Underlying().(*types.Struct)
	return of
}

// behind is the place that a variable or field is another name of, if it is one. A variable that holds a
// struct is a copy. A field may be another one in every struct, unless what it gets is everyone's.
func (s *source) behind(object types.Object) (of place, ok bool) {
	if known, ok := s.names[object]; ok {
		return known, known.root != nil
	}
	s.names[object] = place{} // it may lead back to itself
	of, ok = s.place(s.only(object))
	_, isCopy := object.Type().Underlying().(*types.Struct)
	if !ok || isCopy || isField(object) && !of.global() {
		return place{}, false
	}
	s.names[object] = of
	return of, true
}

// global reports whether a place is the same in every function.
func (p place) global() bool {
	return !p.here && p.root != nil && p.root.Pkg() != nil && p.root.Parent() == p.root.Pkg().Scope()
}

// in is the place as the caller of a function knows it, who hands over these places. ok is false if the
// caller cannot.
func (p place) in(caller map[types.Object]place) (at place, ok bool) {
	if p.global() {
		return p, true
	}
	of, ok := caller[p.root]
	return place{of.root, of.path + p.path, of.here}, ok && !p.here
}
