package servers

import (
	"context"

	"github.com/belayq/belay"

	"example.com/shop/jobs"
)

var global *belay.Server

type site struct {
	server  *belay.Server
	welcome *belay.Definition[int]
}

func register(server *belay.Server) {
	jobs.Welcome.Handle(server, run)
	mail.Handle(server, run)
}

func registerApp(ctx context.Context, app *belay.App) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	register(app.Server)
	return nil
}

func perhaps(server *belay.Server, only string) {
	if only == "mail" {
		mail.Handle(server, run)
	}
}

func again(server *belay.Server) {
	if server.Identity() != "" {
		again(server)
	}
	report.Handle(server, run) // want `^Report gets a second handler`
}

func (s *site) register() { s.welcome.Handle(s.server, run) }

func onGlobal() { mail.Handle(global, run) }

func ofCaller(server *belay.Server, d *belay.Definition[int]) { d.Handle(server, run) }

func (s *site) start() {
	s.register()
	s.welcome.Handle(s.server, run) // want `^s.welcome gets a second handler .* callees.go:44$`
	mail.Handle(s.server, run)
	register(s.server) // want `^Mail gets a second handler .* callees.go:53$`
	onGlobal()
	onGlobal() // want `^Mail gets a second handler .* callees.go:46$`
}

func two(a, b *site) {
	a.register()
	b.register()
}

func callers(server *belay.Server, app *belay.App) {
	register(server)
	perhaps(server, "mail")
	perhaps(server, "report")
	jobs.Welcome.Handle(server, run) // want `^Welcome gets a second handler .* callees.go:19$`
	again(server)
	again(app.Server)
	ofCaller(server, jobs.Farewell)
	ofCaller(server, jobs.Farewell) // want `^Farewell gets a second handler .* callees.go:48$`
	if err := registerApp(context.Background(), app); err != nil {
		return
	}
	mail.Handle(app.Server, run) // want `^Mail gets a second handler .* callees.go:20$`
}
