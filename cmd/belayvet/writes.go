package main

import (
	"go/ast"
	"go/token"
	"go/types"
)

// writes are what a package's variables and fields get.
type writes struct {
	pkg *types.Package
	// written counts how often a variable or field gets a value. More than once is often: that of another
	// package, that whose address is taken, and a slice that others may change.
	written map[types.Object]int
	// values are the last that variables and fields get.
	values map[types.Object]ast.Expr
	// targets are what expressions are assigned to: values, the other way round.
	targets map[ast.Expr]ast.Expr
	// set are those that get their value by an assignment, and might have another before it and in another
	// call.
	set map[types.Object]span
}

// A span is from an assignment to the end of its function.
type span struct{ from, to token.Pos }

const often = 2

func newWrites(pkg *types.Package) *writes {
	return &writes{
		pkg, map[types.Object]int{}, map[types.Object]ast.Expr{}, map[ast.Expr]ast.Expr{}, map[types.Object]span{},
	}
}

// write is one value that a variable or field gets, nil if it cannot be seen.
func (w *writes) write(object types.Object, value ast.Expr) {
	if object == nil {
		return
	}
	if w.written[object]++; value != nil {
		w.values[object] = ast.Unparen(value)
	}
	if object.Pkg() != w.pkg {
		w.written[object] = often
	}
}

// only is the one value that a variable or field gets, or nil. An exported field may get others elsewhere.
func (w *writes) only(object types.Object) ast.Expr {
	if w.written[object] != 1 || isField(object) && object.Exported() && w.pkg.Name() != "main" {
		return nil
	}
	return w.values[object]
}

// fixed reports whether a variable or field has one value wherever it is spoken of together with this position.
func (w *writes) fixed(object types.Object, pos token.Pos) bool {
	set, isSet := w.set[object]
	return w.written[object] < often && (!isSet || set.from <= pos && pos <= set.to)
}

func (w *writes) isSet(object types.Object) bool {
	_, isSet := w.set[object]
	return isSet
}

func isField(object types.Object) bool {
	variable, ok := object.(*types.Var)
	return ok && variable.IsField()
}

// read notes what a piece of syntax writes; around it are these.
func (s *source) read(node ast.Node, around []ast.Node) {
	switch node := node.(type) {
	case *ast.ValueSpec:
		for i, name := range node.Names {
			if len(node.Values) > 0 {
				s.assign(name, one(node.Values, i, len(node.Names)), around)
			}
		}
	case *ast.AssignStmt:
		for i, target := range node.Lhs {
			s.assign(target, one(node.Rhs, i, len(node.Lhs)), append(around, node))
		}
	case *ast.RangeStmt:
		s.assign(node.Key, nil, around)
		s.assign(node.Value, nil, around)
	case *ast.CompositeLit:
		s.readStruct(node)
	case *ast.Field: // a parameter has a value from the beginning
		for _, name := range node.Names {
			if parameter := s.object(name); parameter != nil && !isField(parameter) {
				s.write(parameter, nil)
			}
		}
	case *ast.UnaryExpr:
		if object := s.changed(node.X); node.Op == token.AND && object != nil {
			s.written[object] = often
		}
	case *ast.Ident:
		if object := s.object(node); object != nil && isSlice(object.Type()) && s.isHandedOn(node, around) {
			s.written[object] = often
		}
	}
}

// one is the value that belongs to the target at i, or nil if a call answers for all.
func one(values []ast.Expr, i, targets int) ast.Expr {
	if len(values) != targets {
		return nil
	}
	return values[i]
}

// assign notes what an assignment or a declaration changes.
func (s *source) assign(target, value ast.Expr, around []ast.Node) {
	object := s.changed(target)
	if object == nil {
		return
	}
	if pointer, ok := ast.Unparen(target).(*ast.StarExpr); ok {
		s.overwrite(structOf(s.TypesInfo.TypeOf(pointer)))
	}
	if value != nil {
		s.targets[ast.Unparen(value)] = target
	}
	if s.object(target) != object || isExchange(around) {
		value = nil // of a part of it, or of one that gets another value at the same moment
	}
	s.write(object, value)
	for _, node := range around {
		switch node.(type) {
		case *ast.FuncDecl, *ast.FuncLit: // the innermost is the last
			if object.Pos() < node.Pos() || node.End() <= object.Pos() {
				s.set[object] = span{target.Pos(), node.End()}
			} else {
				delete(s.set, object)
			}
		}
	}
}

// isExchange reports whether the innermost node sets several variables at once, as a, b = b, a does.
func isExchange(around []ast.Node) bool {
	statement, ok := around[len(around)-1].(*ast.AssignStmt)
	return ok && statement.Tok == token.ASSIGN && len(statement.Lhs) > 1
}

// changed is what an assignment to an expression changes: to an element, the variable or field that has it.
func (s *source) changed(target ast.Expr) types.Object {
	switch target := ast.Unparen(target).(type) {
	case *ast.IndexExpr:
		return s.changed(target.X)
	case *ast.StarExpr:
		return s.changed(target.X)
	}
	return s.object(target)
}

// overwrite notes that all fields of a struct change at once.
func (s *source) overwrite(of *types.Struct) {
	if of == nil {
		return
	}
	for i := range of.NumFields() {
		s.written[of.Field(i).Origin()] = often
	}
}

// readStruct notes what fields get in a literal.
func (s *source) readStruct(literal *ast.CompositeLit) {
	of := structOf(s.TypesInfo.TypeOf(literal))
	if of == nil {
		return
	}
	for i, element := range literal.Elts {
		if keyed, ok := element.(*ast.KeyValueExpr); ok {
			s.write(s.object(keyed.Key), keyed.Value)
			s.targets[ast.Unparen(keyed.Value)] = keyed.Key
		} else {
			s.write(of.Field(i).Origin(), element)
		}
	}
}
