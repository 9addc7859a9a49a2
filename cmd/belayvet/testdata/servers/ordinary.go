package servers

import (
	"context"

	"github.com/belayq/belay"

	"example.com/shop/jobs"
)

// What is embedded is one thing under both of its names.
type embedding struct{ *belay.Server }

type deep struct {
	*embedding
	welcome
}

type welcome struct{ *belay.Definition[int] }

func embedded(d *deep) {
	mail.Handle(d.Server, run)
	d.HandleRaw("Mail", raw)               // want `^Mail gets a second handler .* ordinary.go:22$`
	letter.Handle(d.embedding.Server, run) // want `^Mail gets a second handler .* ordinary.go:22$`
	d.Handle(d.Server, run)
	d.welcome.Definition.Handle(d.Server, run) // want `^d.welcome.Definition gets a second handler .* ordinary.go:25$`
}

type changing struct{ *embedding }

func replaced(c *changing, first, second *embedding) {
	c.embedding = first
	mail.Handle(c.Server, run)
	c.embedding = second
	mail.Handle(c.Server, run)
}

// Generic functions and types are one, whatever their types.
type box[T any] struct {
	server *belay.Server
	jobs   *belay.Definition[T]
}

func (b *box[T]) register(h func(context.Context, T) error) { b.jobs.Handle(b.server, h) }

func add[T any](server *belay.Server, d *belay.Definition[T], h func(context.Context, T) error) {
	d.Handle(server, h)
}

func generic(b, other *box[int], client *belay.Client) {
	b.register(run)
	other.register(run)
	b.register(run) // want `^b.jobs gets a second handler`
	server := newServer(client)
	add(server, mail, run)
	add[int](server, mail, run) // want `^Mail gets a second handler`
}

type refill[T any] struct {
	server *belay.Server
	with   T
}

func (r *refill[T]) renew(server *belay.Server) { r.server = server }

func refilled(b *refill[int], client *belay.Client) {
	b.renew(newServer(client))
	mail.Handle(b.server, run)
	b.renew(newServer(client))
	mail.Handle(b.server, run)
}

// A method that is given its receiver like an argument gets other things than it seems.
func (s *site) addTo(server *belay.Server) { mail.Handle(server, run) }

func expressions(s *site, one, other *belay.Server) {
	(*site).addTo(s, one)
	(*site).addTo(s, other)
	(*belay.Definition[int]).Handle(mail, one, run)
	(*belay.Server).HandleRaw(one, "Mail", raw)
	handle := mail.Handle
	handle(one, run)
	handle(other, run)
}

// A struct is copied, and its copy is another one.
type kept struct{ server *belay.Server }

func copied(first kept, client *belay.Client) {
	second := first
	second.server = newServer(client)
	mail.Handle(first.server, run)
	mail.Handle(second.server, run)
}

func overwritten(k *kept, client *belay.Client) {
	mail.Handle(k.server, run)
	*k = kept{newServer(client)}
	mail.Handle(k.server, run)
}

// A closure that is called twice sets its variable twice.
func closures(client *belay.Client) {
	var server *belay.Server
	setUp := func() {
		server = newServer(client)
		report.Handle(server, run)
		report.Handle(server, run) // want `^Report gets a second handler`
	}
	setUp()
	mail.Handle(server, run)
	setUp()
	mail.Handle(server, run)
}

// Each round of a loop without an end has a server of its own.
func rounds(client *belay.Client, dry func() bool) {
	for {
		server := newServer(client)
		if dry() {
			mail.Handle(server, run)
		} else {
			mail.Handle(server, run)
		}
		jobs.Welcome.Handle(server, run)
		if dry() {
			continue
		}
		jobs.Welcome.Handle(server, run) // want `^Welcome gets a second handler`
	}
}

// Functions that call each other twice are looked at once.
func even(server *belay.Server) { odd(server); odd(server) } // want `^Farewell gets a second handler`

func odd(server *belay.Server) {
	even(server)
	jobs.Farewell.Handle(server, run)
}

var registered = map[*belay.Server]bool{}

// A function that returns early because it has been called before registers nothing then; one that fails ends the program.
func once(server *belay.Server) {
	if registered[server] {
		return
	}
	registered[server] = true
	mail.Handle(server, run)
}

func onceOrError(server *belay.Server) error {
	if registered[server] {
		return nil
	}
	report.Handle(server, run)
	return nil
}

func orError(ctx context.Context, server *belay.Server) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	jobs.Welcome.Handle(server, run)
	return 1, nil
}

func many(ctx context.Context, server *belay.Server) {
	once(server)
	once(server)
	_ = onceOrError(server)
	_ = onceOrError(server)
	_, _ = orError(ctx, server)
	_, _ = orError(ctx, server) // want `^Welcome gets a second handler`
}

func results(server *belay.Server) {
	sum := belay.DefineResult[int, int]("Sum", belay.Track(1<<40), belay.Idempotent())
	handler := func(context.Context, int) (int, error) { return 1, nil }
	sum.Handle(server, handler)
	sum.Handle(server, handler) // want `^Sum gets a second handler`
}
