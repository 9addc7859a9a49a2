// Package servers registers handlers, some of them twice.
package servers

import (
	"context"
	"errors"
	"log"
	"os"

	"github.com/belayq/belay"

	"example.com/shop/jobs"
)

var (
	mail   = belay.Define[int]("Mail", belay.Idempotent())
	letter = belay.Define[int]("Mail", belay.Idempotent()) // one class under two names
	report = belay.Define[int]("Report", belay.Idempotent())
)

func run(context.Context, int) error { return nil }

func raw(context.Context, *belay.Job) error { return nil }

func good(client *belay.Client) {
	server, other := newServer(client), newServer(client)
	mail.Handle(server, run)
	report.Handle(server, run)
	mail.Handle(other, run)
	other.HandleRaw("Report", raw)
	other.HandleUnknown(raw)
	other.HandleRaw(os.Getenv("CLASS"), raw)
	other.HandleRaw(os.Getenv("CLASS"), raw)
}

func twice(client *belay.Client) {
	server, _ := belay.NewServer(client, belay.ServerConfig{})
	mail.Handle(server, run)
	mail.Handle(server, run) // want `^Mail gets a second handler on this server, which is refused when the program starts; the first is at servers.go:38$`
	report.Handle(server, run)
	server.HandleRaw("Report", raw) // want `^Report gets a second handler .* servers.go:40$`
	jobs.Welcome.Handle(server, run)
	jobs.Farewell.Handle(server, run)
	jobs.Welcome.Handle(server, run) // want `^Welcome gets a second handler .* servers.go:42$`
	server.HandleUnknown(raw)
	server.HandleUnknown(raw)                                             // want `^\* gets a second handler`
	belay.Define[int]("Late", belay.Idempotent()).Handle(server, run)     // fine
	(belay.Define[int]("Late", belay.Idempotent())).Handle((server), run) // want `^Late gets a second handler`
	same := server
	letter.Handle(same, run) // want `^Mail gets a second handler .* servers.go:38$`
}

func alternatives(client *belay.Client, dry bool) error {
	server := newServer(client)
	if dry {
		mail.Handle(server, run)
	} else {
		mail.Handle(server, run)
	}
	switch os.Getenv("REPORT") {
	case "dry":
		report.Handle(server, run)
	default:
		report.Handle(server, run)
	}
	if dry {
		jobs.Welcome.Handle(server, run)
		return nil
	}
	if os.Getenv("HOME") == "" {
		jobs.Farewell.Handle(server, run)
		log.Fatal("no home")
	}
	jobs.Welcome.Handle(server, run)
	jobs.Farewell.Handle(server, run)
	return nil
}

func oneOfTwo(server *belay.Server, dry bool) {
	if dry {
		mail.Handle(server, run)
	}
	if !dry {
		mail.Handle(server, run)
	}
}

func conditional(server *belay.Server, also bool) error {
	if also {
		mail.Handle(server, run)
	}
	mail.Handle(server, run) // want `^Mail gets a second handler .* servers.go:90$`
	report.Handle(server, run)
	if also {
		return errors.New("also")
	}
	for range 2 {
		report.Handle(server, run) // want `^Report gets a second handler`
	}
	return nil
}

func another(client *belay.Client) {
	server := newServer(client)
	mail.Handle(server, run)
	server = newServer(client)
	mail.Handle(server, run)
	for _, server := range []*belay.Server{newServer(client), server} {
		report.Handle(server, run)
	}
	report.Handle(server, run)
}

func renewed(server *belay.Server, client *belay.Client) {
	mail.Handle(server, run)
	server = newServer(client)
	mail.Handle(server, run)
}

func handlers(client *belay.Client) {
	server, err := belay.NewServer(client, belay.ServerConfig{Concurrency: 1})
	if err != nil {
		log.Fatal(err)
	}
	welcome := jobs.Welcome.Handler(run)
	server.Register(mail.Handler(run), report.Handler(run), welcome)
	report.Handle(server, run) // want `^Report gets a second handler`
	list := []belay.Registration{
		mail.Handler(run),
		letter.Handler(run), // want `^Mail gets a second handler`
		{},
	}
	listed := newServer(client)
	listed.Register(list...)
	other := newServer(client)
	other.Register(welcome)
	other.Register(welcome)                              // want `^Welcome gets a second handler`
	other.Register(mail.Handler(run), mail.Handler(run)) // want `^Mail gets a second handler`
	if client == nil {
		newServer(client).Register(mail.Handler(run))
	}
}

func newServer(client *belay.Client) *belay.Server {
	server, err := belay.NewServer(client, belay.ServerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	return server
}

func main() {
	belay.Main(func(_ context.Context, app *belay.App) error {
		mail.Handle(app.Server, run)
		server := app.Server
		mail.Handle(server, run) // want `^Mail gets a second handler`
		return nil
	}, belay.MainConfig{})
}
