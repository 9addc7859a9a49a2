package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/types/typeutil"
)

// A registration is a handler that a server gets.
type registration struct {
	server place
	class  classKey
	// at is the expression by which a function makes it: Handle itself, or the call of a function that calls Handle.
	at ast.Expr
	// pos is where the handler is registered, maybe in that other function.
	pos token.Pos
}

// A classKey is the same for two expressions of one class: its name, or the place of its definition if that is another
// package's.
type classKey struct {
	name string
	place
}

// registrar finds registrations in the functions of a package.
type registrar struct {
	*classes
	bodies map[*types.Func]*ast.FuncDecl
	// always are the registrations that a function makes for its callers.
	always map[*types.Func][]registration
}

func newRegistrar(c *classes) *registrar {
	r := &registrar{c, map[*types.Func]*ast.FuncDecl{}, map[*types.Func][]registration{}}
	for _, file := range c.Files {
		for _, declared := range file.Decls {
			if fn, ok := declared.(*ast.FuncDecl); ok && fn.Body != nil {
				if object, ok := c.TypesInfo.Defs[fn.Name].(*types.Func); ok {
					r.bodies[object] = fn
				}
			}
		}
	}
	return r
}

// in are the registrations that a piece of a function makes, but for those in functions that it declares.
func (r *registrar) in(node ast.Node) (found []registration) {
	ast.Inspect(node, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			found = append(found, r.by(node)...)
		}
		return true
	})
	return found
}

// by are the registrations that a call makes.
func (r *registrar) by(call *ast.CallExpr) []registration {
	method, _ := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	switch r.called(call) {
	case "Definition.Handle":
		if server, ok := r.place(call.Args[0]); ok && method != nil {
			return r.one(server, method, call)
		}
	case "Server.HandleClass":
		if method == nil {
			return nil
		}
		server, ok := r.operand(method)
		if name, known := r.text(call.Args[0]); ok && known {
			return []registration{{server, classKey{name: name}, call, call.Pos()}}
		}
	case "NewServer", "Main":
		return r.byOptions(call)
	case "":
		return r.byCallee(call, method)
	}
	return nil
}

// one is the registration of the class whose method is called.
func (r *registrar) one(server place, method *ast.SelectorExpr, at ast.Expr) []registration {
	key := classKey{}
	if d := r.definitionOf(method.X); d != nil && d.known {
		key.name = d.class
	} else if of, ok := r.operand(method); ok {
		key.place = of
	} else {
		return nil
	}
	return []registration{{server, key, at, at.Pos()}}
}

// byOptions are those that a new server gets by its Handlers.
func (r *registrar) byOptions(call *ast.CallExpr) (found []registration) {
	server, ok := r.place(r.targets[call])
	if !ok {
		server.root = types.NewVar(call.Pos(), nil, "server", nil) // it goes where nobody here follows
	}
	options, _ := r.list(call, 1)
	for _, option := range options {
		handlers := r.callOf("Handlers", option)
		if handlers == nil {
			continue
		}
		list, _ := r.list(handlers, 0)
		for _, element := range list {
			with := r.callOf("Definition.With", element)
			if with == nil {
				continue
			}
			if method, ok := ast.Unparen(with.Fun).(*ast.SelectorExpr); ok {
				found = append(found, r.one(server, method, element)...)
			}
		}
	}
	return found
}

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

// alwaysBy are the registrations that a function makes unless it returns early: those on which no if or loop decides.
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
	}
	r.always[fn] = distinct(found)
	return r.always[fn]
}

// distinct are registrations without those that repeat an earlier one: a function that calls another one twice, and is called
// twice by a third, would double them at every step.
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
