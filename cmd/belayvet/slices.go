package main

import (
	"go/ast"
	"go/types"
	"slices"
)

func isSlice(t types.Type) bool {
	_, ok := t.Underlying().(*types.Slice)
	return ok
}

// isHandedOn reports whether others get to know a slice here, who may change its elements.
func (s *source) isHandedOn(name *ast.Ident, around []ast.Node) bool {
	child := ast.Node(name)
	for len(around) > 0 {
		parent := around[len(around)-1]
		around = around[:len(around)-1]
		switch parent := parent.(type) {
		case *ast.ParenExpr, *ast.SelectorExpr:
			child = parent
			continue
		case *ast.CallExpr:
			return parent.Fun != child && s.called(parent) == "" && !s.isReader(parent.Fun)
		case *ast.KeyValueExpr:
			return parent.Value == child
		case *ast.AssignStmt:
			return isAmong(child, parent.Rhs)
		case *ast.ValueSpec:
			return isAmong(child, parent.Values)
		case *ast.SliceExpr, *ast.ReturnStmt, *ast.CompositeLit, *ast.SendStmt:
			return true
		}
		return false
	}
	return false
}

// isAmong reports whether a node is one of these expressions.
func isAmong(node ast.Node, list []ast.Expr) bool {
	return slices.ContainsFunc(list, func(e ast.Expr) bool { return e == node })
}

// isReader reports whether an expression is a builtin function that changes no element of what it is given.
func (s *source) isReader(e ast.Expr) bool {
	name, ok := ast.Unparen(e).(*ast.Ident)
	return ok && s.TypesInfo.Types[name].IsBuiltin() && name.Name != "copy" && name.Name != "clear"
}
