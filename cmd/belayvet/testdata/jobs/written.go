package jobs

import "github.com/belayq/belay"

// What an element of a list gets later is not seen, so the list is believed.
func elements(more []belay.DefineOption) {
	o := []belay.DefineOption{belay.Queue("a"), belay.Queue("b")}
	o[1] = belay.Idempotent()
	_ = belay.Define[int]("Element", o...)

	loop := []belay.DefineOption{belay.Queue("a"), belay.Queue("b")}
	for i := range loop {
		loop[i] = more[i]
	}
	_ = belay.Define[int]("Loop", loop...)

	pointed := []belay.DefineOption{belay.Queue("a")}
	first := &pointed[0]
	*first = belay.Idempotent()
	_ = belay.Define[int]("Pointed", pointed...)

	named := []belay.DefineOption{belay.Queue("a")}
	other := named
	other[0] = belay.Idempotent()
	_ = belay.Define[int]("Named", named...)

	filled := []belay.DefineOption{belay.Queue("a")}
	copy(filled, more)
	_ = belay.Define[int]("Filled", filled...)

	changed := []belay.DefineOption{belay.Queue("a"), belay.Queue("b")}
	change(changed)
	_ = belay.Define[int]("Changed", changed...)

	cut := []belay.DefineOption{belay.Queue("a"), belay.Queue("b")}
	_ = append(cut[:1], belay.Idempotent())
	_ = belay.Define[int]("Cut", cut...)

	grown := []belay.DefineOption{belay.Queue("a")}
	grown = append(grown, belay.Idempotent())
	_ = belay.Define[int]("Grown", grown...)

	_ = belay.Define[int](several())
}

func change(o []belay.DefineOption) { o[0] = belay.Idempotent() }

func several() (string, belay.DefineOption) { return "Several", belay.Idempotent() }

// Looking at a list changes nothing.
func looked() {
	o := []belay.DefineOption{1: belay.Queue("a"), 0: belay.Queue("b")}
	p := []belay.DefineOption{belay.Queue("a")}
	for i := range p {
		_ = p[i]
	}
	if len(p) > 0 && p != nil {
		_ = append(p, belay.Idempotent())
	}
	_ = belay.Define[int]("Looked", p...)  // want `^Looked has neither`
	_ = belay.Define[int]("Indexed", o...) // want `^Indexed has neither`
}

// Config is filled in by others, too.
type Config struct{ Options []belay.DefineOption }

type config struct{ options []belay.DefineOption }

func configs() []Config { return []Config{{Options: []belay.DefineOption{belay.Queue("a")}}} }

func fromConfig(exported Config) {
	_ = belay.Define[int]("Configured", exported.Options...)
	_ = config{[]belay.DefineOption{belay.Idempotent()}}
	own := config{options: []belay.DefineOption{belay.Queue("a")}}
	_ = belay.Define[int]("Configured", own.options...)
}

// An option of one's own may say it, whatever it is called.
type JobOption struct{ belay.DefineOption }

var _ = belay.Define[int]("Own", JobOption{belay.Idempotent()})

// What leads back to itself is not followed for ever.
func circles() {
	var this, that belay.DefineOption
	this = that
	that = this
	_ = belay.Define[int]("Circle", this)
	_ = belay.Define[int]("Circle", that)
}

// Generic definitions are like others.
func define[T any](class string, options ...belay.DefineOption) *belay.Definition[T] {
	_ = belay.Define[T](class) // want `^a class has neither`
	return belay.Define[T](class, append(options, belay.Idempotent())...)
}

type generic[T any] struct{ options []belay.DefineOption }

func fill(g *generic[int], h *generic[string]) {
	g.options = []belay.DefineOption{belay.Queue("a")}
	h.options = []belay.DefineOption{belay.Idempotent()}
	_ = belay.Define[int]("Filled", h.options...)
	_ = define[string]("Defined")
}
