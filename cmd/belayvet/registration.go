package main

import (
	"go/ast"
	"go/token"
	"go/types"
)

// A registration is a handler that a server gets.
type registration struct {
	server place
	class  classKey
	// at is the expression by which a function makes it: Handle itself, or the call of a function that calls
	// Handle.
	at ast.Expr
	// pos is where the handler is registered, maybe in that other function.
	pos token.Pos
}

// A classKey is the same for two expressions of one class: its name, or the place of its definition if that
// is another package's.
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
	case "Server.HandleRaw", "Server.HandleUnknown", "Server.Register":
		if method == nil {
			return nil
		}
		server, ok := r.operand(method)
		switch {
		case !ok:
			return nil
		case method.Sel.Name == "HandleUnknown":
			return []registration{{server, classKey{name: "*"}, call, call.Pos()}}
		case method.Sel.Name == "Register":
			return r.byRegister(server, call)
		}
		if name, known := r.text(call.Args[0]); known {
			return []registration{{server, classKey{name: name}, call, call.Pos()}}
		}
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

// byRegister returns those of a call of Server.Register.
func (r *registrar) byRegister(server place, call *ast.CallExpr) (found []registration) {
	list, _ := r.list(call, 0)
	for _, element := range list {
		handler := r.callOf("Definition.Handler", element)
		if handler == nil {
			continue
		}
		if method, ok := ast.Unparen(handler.Fun).(*ast.SelectorExpr); ok {
			found = append(found, r.one(server, method, element)...)
		}
	}
	return found
}
