package main

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/types/typeutil"
)

// byCallee are those that a function of this package makes for its caller.
func (r *registrar) byCallee(call *ast.CallExpr, method *ast.SelectorExpr) (found []registration) {
	fn := typeutil.StaticCallee(r.TypesInfo, call)
	if fn == nil || r.bodies[fn.Origin()] == nil {
		return nil
	}
	always := r.alwaysBy(fn.Origin())
	if len(always) == 0 {
		return nil
	}
	handed := r.handed(fn.Origin(), call, method)
	for _, its := range always {
		server, ok := its.server.in(handed)
		class, same := r.classIn(its.class, handed)
		if ok && same {
			found = append(found, registration{server, class, call, its.pos})
		}
	}
	return found
}

// classIn is a class as the caller of a function knows it.
func (r *registrar) classIn(class classKey, caller map[types.Object]place) (as classKey, ok bool) {
	if class.name != "" {
		return class, true
	}
	of, ok := class.in(caller)
	if call, isCall := r.only(of.root).(*ast.CallExpr); isCall && of.path == "" && r.of[call] != nil && r.of[call].known {
		return classKey{name: r.of[call].class}, ok
	}
	return classKey{place: of}, ok
}

// handed are the places that a function's parameters have in a call.
func (r *registrar) handed(fn *types.Func, call *ast.CallExpr, method *ast.SelectorExpr) map[types.Object]place {
	handed := map[types.Object]place{}
	parameters := fn.Signature().Params()
	if recv := fn.Signature().Recv(); recv != nil {
		if selection := r.TypesInfo.Selections[method]; selection == nil || selection.Kind() != types.MethodVal {
			return handed // T.Method(receiver, arguments)
		}
		if of, ok := r.operand(method); ok {
			handed[recv] = of
		}
	}
	for i := range min(parameters.Len(), len(call.Args)) {
		if at, ok := r.place(call.Args[i]); ok {
			handed[parameters.At(i)] = at
		}
	}
	return handed
}

// alwaysBy are the registrations that a function makes unless it fails: those on which no if or loop decides.
func (r *registrar) alwaysBy(fn *types.Func) []registration {
	if known, ok := r.always[fn]; ok {
		return known
	}
	r.always[fn] = nil // one that calls itself adds nothing by that
	var found []registration
	for _, statement := range r.bodies[fn].Body.List {
		switch statement := statement.(type) {
		case *ast.ExprStmt, *ast.AssignStmt, *ast.ReturnStmt:
			found = append(found, r.in(statement)...)
		case *ast.IfStmt:
			if statement.Init != nil {
				found = append(found, r.in(statement.Init)...)
			}
		}
		if r.mayHaveDone(statement) {
			break
		}
	}
	r.always[fn] = distinct(found)
	return r.always[fn]
}

// mayHaveDone reports whether a statement may return without an error, as one does that has seen this server
// before.
func (r *registrar) mayHaveDone(statement ast.Stmt) (may bool) {
	ast.Inspect(statement, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			may = may || len(node.Results) == 0 || !r.isFailure(node.Results[len(node.Results)-1])
		}
		return true
	})
	return may
}

// isFailure reports whether an expression is an error, and not nil.
func (r *registrar) isFailure(e ast.Expr) bool {
	of := r.TypesInfo.Types[e]
	is, ok := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	return ok && !of.IsNil() && types.Implements(of.Type, is)
}

// distinct are registrations without those that repeat an earlier one: a function that calls another one
// twice, and is called twice by a third, would double them at every step.
func distinct(all []registration) (found []registration) {
	for _, its := range all {
		if !slices.ContainsFunc(found, func(earlier registration) bool {
			return earlier.server == its.server && earlier.class == its.class
		}) {
			found = append(found, its)
		}
	}
	return found
}
