package main

import (
	"go/constant"
	"go/token"
	"go/types"
	"reflect"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"
)

// belayPath is the package whose functions belayvet knows by name.
const belayPath = "github.com/belayq/belay"

// sources builds a package in SSA form for the check. It reports nothing.
var sources = &analysis.Analyzer{
	Name:       "belaysource",
	Doc:        "build SSA form of packages that use Belay",
	Run:        func(pass *analysis.Pass) (any, error) { return newSource(pass), nil },
	ResultType: reflect.TypeFor[*source](),
}

// A source is one package, with what its variables and fields get.
type source struct {
	*analysis.Pass
	functions []*ssa.Function
	stores    map[location][]*ssa.Store
	loads     map[location][]ssa.Value
	// exposed are locations that may be written elsewhere: their addresses are used as values, or all fields
	// of their struct are written at once.
	exposed map[location]bool
}

// A location is a global variable (*ssa.Global), a field of all values of a struct (*types.Var), or a local
// variable in memory (*ssa.Alloc).
type location any

// enders are functions that do not return.
var enders = []string{"log.Fatal", "log.Fatalf", "log.Fatalln", "os.Exit", "runtime.Goexit"}

// newSource returns nil for a package that does not use Belay: most do not, and building one takes time.
func newSource(pass *analysis.Pass) *source {
	uses := false
	for _, object := range pass.TypesInfo.Uses {
		uses = uses || isBelay(object.Pkg())
	}
	if !uses {
		return nil
	}
	// Not by the analyzer buildssa: it needs facts about all dependencies, the standard library included.
	program := ssa.NewProgram(pass.Fset, 0)
	program.SetNoReturn(func(fn *types.Func) bool { return slices.Contains(enders, fn.FullName()) })
	for _, imported := range pass.Pkg.Imports() {
		program.CreatePackage(imported, nil, nil, true)
	}
	pkg := program.CreatePackage(pass.Pkg, pass.Files, pass.TypesInfo, false)
	pkg.Build()
	s := &source{pass, nil, map[location][]*ssa.Store{}, map[location][]ssa.Value{}, map[location]bool{}}
	s.add(pkg.Func("init"))
	for _, name := range pass.TypesInfo.Defs {
		if fn, ok := name.(*types.Func); ok {
			s.add(program.FuncValue(fn))
		}
	}
	slices.SortFunc(s.functions, func(a, b *ssa.Function) int { return int(a.Pos() - b.Pos()) })
	for _, fn := range s.functions {
		for _, block := range fn.Blocks {
			for _, instruction := range block.Instrs {
				s.read(instruction)
			}
		}
	}
	return s
}

// add adds a function and those that are declared in it.
func (s *source) add(fn *ssa.Function) {
	if fn != nil {
		s.functions = append(s.functions, fn)
		for _, inner := range fn.AnonFuncs {
			s.add(inner)
		}
	}
}

// read records what an instruction writes and reads.
func (s *source) read(instruction ssa.Instruction) {
	var accessed ssa.Value // its address is no value here
	switch instruction := instruction.(type) {
	case *ssa.Store:
		accessed = instruction.Addr
		at := locate(accessed)
		s.stores[at] = append(s.stores[at], instruction)
		if of, ok := instruction.Val.Type().Underlying().(*types.Struct); ok && at == nil {
			for field := range of.Fields() {
				s.exposed[field.Origin()] = true
			}
		}
	case *ssa.UnOp:
		if instruction.Op == token.MUL {
			accessed = instruction.X
			s.loads[locate(accessed)] = append(s.loads[locate(accessed)], instruction)
		}
	case *ssa.FieldAddr, *ssa.IndexAddr, *ssa.MakeClosure:
		return
	}
	for _, operand := range instruction.Operands(nil) {
		if *operand != accessed {
			s.exposed[locate(*operand)] = true
		}
	}
}

// locate returns the location that an address is of, or nil.
func locate(address ssa.Value) location {
	switch address := address.(type) {
	case *ssa.Global, *ssa.Alloc:
		return address
	case *ssa.FieldAddr:
		return fieldOf(address.X.Type(), address.Field)
	case *ssa.FreeVar: // the variable of the function around
		inner := address.Parent()
		for _, block := range inner.Parent().Blocks {
			for _, instruction := range block.Instrs {
				if closure, ok := instruction.(*ssa.MakeClosure); ok && closure.Fn == inner {
					return locate(closure.Bindings[slices.Index(inner.FreeVars, address)])
				}
			}
		}
	}
	return nil
}

// fieldOf returns a field of a struct, or of the struct that a pointer points to. A generic struct has one for
// all its types.
func fieldOf(t types.Type, index int) location {
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		t = pointer.Elem()
	}
	if of, ok := t.Underlying().(*types.Struct); ok {
		return of.Field(index).Origin()
	}
	return nil
}

// only returns the one value that a location gets, or nil. Other packages may write an exported field.
func (s *source) only(at location) ssa.Value {
	field, isField := at.(*types.Var)
	if at == nil || len(s.stores[at]) != 1 || s.exposed[at] || isField && field.Exported() && s.Pkg.Name() != "main" {
		return nil
	}
	return s.stores[at][0].Val
}

// value follows conversions, and variables and fields that get one value, to this value.
func (s *source) value(v ssa.Value) ssa.Value {
	for seen := map[ssa.Value]bool{}; v != nil && !seen[v]; {
		seen[v] = true
		switch of := v.(type) {
		case *ssa.ChangeType:
			v = of.X
		case *ssa.ChangeInterface:
			v = of.X
		case *ssa.MakeInterface:
			v = of.X
		case *ssa.UnOp:
			if stored := s.only(locate(of.X)); of.Op == token.MUL && stored != nil {
				v = stored
			}
		}
	}
	return v
}

// elements returns the elements of a slice, and whether these are known to be all, unchanged.
func (s *source) elements(list ssa.Value) (all []ssa.Value, known bool) {
	list = s.value(list)
	if constant, ok := list.(*ssa.Const); ok {
		return nil, constant.IsNil()
	}
	slice, ok := list.(*ssa.Slice)
	if !ok {
		return nil, false
	}
	array, ok := slice.X.(*ssa.Alloc)
	if !ok || !s.unchanged(slice) {
		return nil, false
	}
	for _, use := range *array.Referrers() {
		if element, ok := use.(*ssa.IndexAddr); ok {
			for _, write := range *element.Referrers() {
				if store, ok := write.(*ssa.Store); ok {
					all = append(all, store.Val)
				}
			}
		}
	}
	return all, true
}

// unchanged reports whether nothing writes to the elements of a slice, under any of its names.
func (s *source) unchanged(slice ssa.Value) bool {
	return !slices.ContainsFunc(*slice.Referrers(), func(use ssa.Instruction) bool {
		switch use := use.(type) {
		case *ssa.Call:
			builtin, ok := use.Call.Value.(*ssa.Builtin)
			return called(use) == "" && (!ok || builtin.Name() == "copy" || builtin.Name() == "clear")
		case *ssa.IndexAddr:
			return slices.ContainsFunc(*use.Referrers(), func(of ssa.Instruction) bool { _, ok := of.(*ssa.UnOp); return !ok })
		case *ssa.Store:
			return !slices.Contains(s.stores[locate(use.Addr)], use) || use.Addr == slice ||
				slices.ContainsFunc(s.loads[locate(use.Addr)], func(load ssa.Value) bool { return !s.unchanged(load) })
		case *ssa.BinOp, *ssa.Range:
			return false
		}
		return true
	})
}

func isBelay(pkg *types.Package) bool { return pkg != nil && pkg.Path() == belayPath }

// calls yields the calls of a function.
func calls(fn *ssa.Function, yield func(*ssa.Call)) {
	for _, block := range fn.Blocks {
		for _, instruction := range block.Instrs {
			if call, ok := instruction.(*ssa.Call); ok {
				yield(call)
			}
		}
	}
}

// called returns the name of the function of Belay that a value is certainly the result of, such as "Define",
// or "". The name of a method has a dot before it. A class with results is like any other.
func called(v ssa.Value) string {
	call, ok := v.(*ssa.Call)
	if !ok || call == nil {
		return ""
	}
	fn := call.Call.StaticCallee()
	if fn != nil && fn.Origin() != nil { // a generic function is the same for all types
		fn = fn.Origin()
	}
	switch {
	case fn == nil || fn.Pkg == nil || fn.Object() == nil: // a method that is used as a function, or a closure
		return ""
	case !isBelay(fn.Object().Pkg()):
		return ""
	case fn.Signature.Recv() != nil:
		return "." + fn.Name()
	case fn.Name() == "DefineResult":
		return "Define"
	}
	return fn.Name()
}

// text returns the value of a constant string.
func text(v ssa.Value) (value string, known bool) {
	of, ok := v.(*ssa.Const)
	if !ok || of.Value == nil || of.Value.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(of.Value), true
}
