package main

import (
	"cmp"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"
)

var oneHandler = &analysis.Analyzer{
	Name: "onehandler",
	Doc: `report classes that get two handlers on one server

A second handler would hide the first, so the program panics when it starts. Handlers in functions of the same
package are seen, too, if they are not registered under a condition.`,
	Requires: []*analysis.Analyzer{sources},
	Run: func(pass *analysis.Pass) (any, error) {
		if s, _ := pass.ResultOf[sources].(*source); s != nil {
			for _, fn := range s.functions {
				s.checkHandlers(pass, fn)
			}
		}
		return nil, nil //nolint:nilnil // this analyzer has no result
	},
}

// A registration is a handler that a server gets.
type registration struct {
	server place
	class  classKey
	// pos is where the function makes it: at Handle itself, or at the call of a function that calls Handle.
	pos token.Pos
	// handler is where Handle is called, maybe in that other function.
	handler token.Pos
	block   *ssa.BasicBlock
}

// A classKey is the same for two values of one class: its name, or the place of its definition if that is
// another package's.
type classKey struct {
	name string
	place
}

// String returns the class as a message names it.
func (k classKey) String() string {
	switch root := k.root.(type) {
	case nil:
		return k.name
	case *ssa.Global:
		return root.Name() + k.path
	case *ssa.Parameter:
		return root.Name() + k.path
	}
	return "a class"
}

// checkHandlers reports what one function registers twice.
func (s *source) checkHandlers(pass *analysis.Pass, fn *ssa.Function) {
	made := s.registrations(fn)
	slices.SortStableFunc(made, func(a, b registration) int { return cmp.Compare(a.pos, b.pos) })
	for i, second := range made {
		at := slices.IndexFunc(made[:i], func(first registration) bool {
			return first.server == second.server && first.class == second.class && together(first.block, second.block)
		})
		if at >= 0 {
			first := s.Fset.Position(made[at].handler)
			pass.Reportf(second.pos, "%s gets a second handler on this server, which is refused when the program starts; the first is at %s:%d",
				second.class, filepath.Base(first.Filename), first.Line)
		}
	}
}

// together reports whether two blocks run together: the second runs only after the first, or the first is
// followed by the second before the function ends or the first runs again. So the arms of an if do not, and
// neither do two ifs, whatever their conditions are.
func together(first, second *ssa.BasicBlock) bool {
	return first.Dominates(second) || !leads(first, second, func(b *ssa.BasicBlock) bool {
		return len(b.Succs) == 0 || slices.Contains(b.Succs, first)
	})
}

// leads reports whether there is a way from a block, around another one, to one that is wanted.
func leads(from, around *ssa.BasicBlock, wanted func(*ssa.BasicBlock) bool) bool {
	seen := map[*ssa.BasicBlock]bool{around: true}
	var walk func(b *ssa.BasicBlock) bool
	walk = func(b *ssa.BasicBlock) bool {
		if seen[b] {
			return false
		}
		seen[b] = true
		return wanted(b) || slices.ContainsFunc(b.Succs, walk)
	}
	return walk(from)
}

// registrations returns those that a function makes.
func (s *source) registrations(fn *ssa.Function) (made []registration) {
	calls(fn, func(call *ssa.Call) {
		args, pos := call.Call.Args, call.Pos()
		switch called(call) {
		case "Definition.Handle":
			made = append(made, s.registration(args[1], s.class(args[0]), call, pos)...)
		case "Server.HandleUnknown":
			made = append(made, s.registration(args[0], classKey{name: "*"}, call, pos)...)
		case "Server.HandleRaw":
			name, _ := text(args[1])
			made = append(made, s.registration(args[0], classKey{name: name}, call, pos)...)
		case "Server.Register":
			list, _ := s.elements(args[1])
			for _, element := range list {
				if handler, _ := s.value(element).(*ssa.Call); called(handler) == "Definition.Handler" {
					at := pos
					if handler.Parent() == fn && len(*handler.Referrers()) == 1 { // it stands in this list alone
						at = handler.Pos()
					}
					made = append(made, s.registration(args[0], s.class(handler.Call.Args[0]), call, at)...)
				}
			}
		case "":
			made = append(made, s.byCallee(call)...)
		}
	})
	return made
}

// registration returns one registration, or none if its server or class is not known.
func (s *source) registration(server ssa.Value, class classKey, call *ssa.Call, pos token.Pos) []registration {
	at, ok := s.place(server)
	if !ok || class == (classKey{}) {
		return nil
	}
	return []registration{{at, class, pos, pos, call.Block()}}
}

// class returns the class of a definition.
func (s *source) class(definition ssa.Value) classKey {
	if define, _ := s.value(definition).(*ssa.Call); called(define) == "Define" {
		if name, known := text(define.Call.Args[0]); known {
			return classKey{name: name}
		}
	}
	at, _ := s.place(definition)
	return classKey{place: at}
}

// byCallee returns the registrations that a function of this package makes for its caller.
func (s *source) byCallee(call *ssa.Call) (made []registration) {
	fn := callee(call)
	if fn == nil || fn.Pkg.Pkg != s.Pkg {
		return nil
	}
	for _, its := range s.alwaysBy(fn) {
		server, ok := s.forCaller(its.server, fn, call)
		class := its.class
		if given := argument(class.place, fn, call); given != nil && class.path == "" {
			class = s.class(given)
		} else if class.name == "" {
			class.place, _ = s.forCaller(class.place, fn, call)
		}
		if ok && class != (classKey{}) {
			made = append(made, registration{server, class, call.Pos(), its.handler, call.Block()})
		}
	}
	return made
}

// argument returns what a call gives for the parameter that is the root of a place, or nil.
func argument(p place, fn *ssa.Function, call *ssa.Call) ssa.Value {
	index := slices.IndexFunc(fn.Params, func(parameter *ssa.Parameter) bool { return p.root == any(parameter) })
	if index < 0 {
		return nil
	}
	return call.Call.Args[index]
}

// forCaller returns a place of a function as the caller knows it. ok is false if the caller cannot know it.
func (s *source) forCaller(p place, fn *ssa.Function, call *ssa.Call) (at place, ok bool) {
	if p.global() {
		return p, true
	}
	given := argument(p, fn, call)
	if given == nil || p.here {
		return place{}, false
	}
	if at, ok = s.place(given); ok {
		at.path += p.path
	}
	return at, ok
}

// alwaysBy returns the registrations that a function makes unless it fails: those that every way to a return
// without an error goes through.
func (s *source) alwaysBy(fn *ssa.Function) (always []registration) {
	if known, ok := s.always[fn]; ok {
		return known
	}
	s.always[fn] = nil // one that calls itself adds nothing by that
	for _, its := range s.registrations(fn) {
		avoidable := fn.Blocks[0] != its.block && leads(fn.Blocks[0], its.block, succeeds)
		repeats := slices.ContainsFunc(always, func(earlier registration) bool {
			return earlier.server == its.server && earlier.class == its.class
		})
		if !avoidable && !repeats {
			always = append(always, its)
		}
	}
	s.always[fn] = always
	return always
}

// succeeds reports whether a block may return without an error: its function returns none, or one that is not
// made here and was not compared with nil just before.
func succeeds(b *ssa.BasicBlock) bool {
	returns, ok := b.Instrs[len(b.Instrs)-1].(*ssa.Return)
	if !ok || len(returns.Results) == 0 {
		return ok
	}
	last := returns.Results[len(returns.Results)-1]
	switch last := last.(type) {
	case *ssa.MakeInterface:
		return !types.Identical(last.Type(), types.Universe.Lookup("error").Type())
	case *ssa.Call:
		if fn := last.Call.StaticCallee(); fn != nil && (fn.String() == "errors.New" || fn.String() == "fmt.Errorf") {
			return false
		}
	}
	if len(b.Preds) != 1 {
		return true
	}
	branch, ok := b.Preds[0].Instrs[len(b.Preds[0].Instrs)-1].(*ssa.If)
	if !ok || b.Preds[0].Succs[0] != b {
		return true
	}
	compared, ok := branch.Cond.(*ssa.BinOp)
	return !ok || compared.Op != token.NEQ || compared.X != last
}

// A place is a variable or a value of a function, or a field of one: where a server or a definition is. Two
// values of one place are the same thing. A location that gets several values is not a place.
type place struct {
	root any    // a location or an ssa.Value
	path string // of fields, ".app.Server"
	// here: something on the way is set in the function that uses it, so that another call finds another thing.
	here bool
}

// global reports whether a place is the same in every function.
func (p place) global() bool {
	_, ok := p.root.(*ssa.Global)
	return ok && !p.here
}

// place returns where a value is from; ok is false if that is not known.
func (s *source) place(v ssa.Value) (at place, ok bool) {
	switch v := v.(type) {
	case *ssa.Const, *ssa.Phi:
		return place{}, false
	case *ssa.ChangeType:
		return s.place(v.X)
	case *ssa.UnOp:
		return s.at(v.X, v)
	}
	return place{root: v}, true
}

// at returns the place that an address is of, when an instruction uses it.
func (s *source) at(address ssa.Value, use ssa.Instruction) (at place, ok bool) {
	location := locate(address)
	fixed, here := s.fixed(location, use)
	if !fixed {
		return place{}, false
	}
	if of, ok := s.behind(location); ok {
		return of, true
	}
	field, _ := address.(*ssa.FieldAddr)
	named, isField := location.(*types.Var)
	if !isField || field == nil {
		return place{root: location, here: here}, true
	}
	if _, isPointer := field.X.(*ssa.Alloc); !isPointer && locate(field.X) != nil {
		at, ok = s.at(field.X, use) // of a struct in a variable, or in another struct
	} else {
		at, ok = s.place(field.X)
	}
	return place{at.root, at.path + "." + named.Name(), at.here || here}, ok
}

// fixed reports whether a location has one value wherever it is used, or at least (here) in the function of
// this instruction, after its store.
func (s *source) fixed(at location, use ssa.Instruction) (fixed, here bool) {
	stores := s.stores[at]
	switch {
	case at == nil || s.exposed[at] || len(stores) > 1:
		return false, false
	case len(stores) == 0:
		return true, false
	}
	store := stores[0]
	field, isField := store.Addr.(*ssa.FieldAddr)
	isNew := false // the field of a struct that was just made
	if isField {
		_, isNew = field.X.(*ssa.Alloc)
	}
	_, inClosure := store.Addr.(*ssa.FreeVar)
	_, isLocal := at.(*ssa.Alloc)
	if isNew || isLocal && !inClosure || store.Parent().Synthetic == "package initializer" {
		return true, false
	}
	before := store.Block() != use.Block() && store.Block().Dominates(use.Block()) || store.Block() == use.Block() &&
		slices.Index(store.Block().Instrs, ssa.Instruction(store)) < slices.Index(use.Block().Instrs, use)
	return store.Parent() == use.Parent() && before, true
}

// behind returns the place that a location is another name of, if it is one. A variable that holds a struct is
// a copy. A field may be another one in every struct, unless it gets a global variable.
func (s *source) behind(location location) (of place, ok bool) {
	if known, ok := s.names[location]; ok {
		return known, known.root != nil
	}
	s.names[location] = place{} // it may lead back to itself
	value := s.only(location)
	if value == nil {
		return place{}, false
	}
	of, ok = s.place(value)
	_, isCopy := value.Type().Underlying().(*types.Struct)
	local, isLocal := location.(*ssa.Alloc)
	if !ok || isCopy || !isLocal && !of.global() || isLocal && s.stores[location][0].Parent() != local.Parent() {
		return place{}, false
	}
	s.names[location] = of
	return of, true
}
