package needs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/metrics"
	"github.com/belayq/belay/web"
)

// operator returns what `belay` on the command line and the dashboard use, too.
func operator(kit *belaytest.Kit) *inspect.Inspector { return inspect.New(kit.Client()) }

func Example_inspecting() {
	kit := newKit()
	must(Welcome.Enqueue(ctx, kit.Client(), WelcomeArgs{42}))
	status := must(operator(kit).Status(ctx))
	fmt.Println(status.Enqueued, status.Queues[0].Name, status.Queues[0].Size)
	for found, err := range operator(kit).Jobs(ctx, inspect.Query{Places: []inspect.Place{inspect.PlaceQueue}}) {
		fmt.Println(found.Entry.Class, string(found.Entry.Args), err)
	}
	// Output:
	// 1 mail 1
	// Welcome [42] <nil>
}

func Example_pausing() {
	kit := newKit()
	must(Welcome.Enqueue(ctx, kit.Client(), WelcomeArgs{42}))
	paused := must(operator(kit).Pause(ctx, "mail")) // no worker takes from it, until Resume
	fmt.Println(paused, must(operator(kit).Status(ctx)).Queues[0].Paused)
	// Output: true true
}

func Example_deleting() {
	kit := newKit()
	receipt := must(Welcome.Enqueue(ctx, kit.Client(), WelcomeArgs{42}))
	done, err := operator(kit).Act(ctx, inspect.Task{
		Home: inspect.Waiting("mail"), Action: inspect.Delete, Selection: inspect.Selection{IDs: []string{receipt.JID}},
	}, nil)
	fmt.Println(done.Moved, err, len(kit.Waiting()))
	// Output: 1 <nil> 0
}

// Cancel removes a job that waits, and ends the context of one that runs, wherever that is.
func Example_cancelling() {
	kit := newKit()
	server := must(belay.NewServer(kit.Client(), belay.ServerConfig{Queues: belay.Queues("mail"), Heartbeat: time.Second, Logger: silent}))
	began, answer := make(chan string, 1), make(chan inspect.CancelResult, 1)
	Welcome.Handle(server, func(ctx context.Context, _ WelcomeArgs) error {
		run, _ := belay.Info(ctx)
		began <- run.JID
		<-ctx.Done()
		fmt.Println(<-answer, errors.Is(context.Cause(ctx), belay.ErrCancelled))
		server.Stop()
		return ctx.Err()
	})
	must(Welcome.Enqueue(ctx, kit.Client(), WelcomeArgs{42}))
	go func() { answer <- must(operator(kit).Cancel(ctx, <-began))[0].Result }()
	fmt.Println(server.Run(ctx))
	// Output:
	// stopping true
	// <nil>
}

// A worker serves its metrics with ProcessConfig.Metrics, or in a mux of its own.
func Example_metrics() {
	kit := newKit()
	server := must(belay.NewServer(kit.Client(), belay.ServerConfig{Queues: belay.Queues("mail"), Logger: silent}))
	Welcome.Handle(server, func(context.Context, WelcomeArgs) error { server.Stop(); return nil })
	must(Welcome.Enqueue(ctx, kit.Client(), WelcomeArgs{42}))
	fmt.Println(server.Run(ctx))

	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics.Handler(metrics.New(metrics.Config{Server: server})))
	fmt.Println(regexp.MustCompile(`belay_jobs_total\{.*done.*`).FindString(get(mux, "/metrics").Body.String()))
	// Output:
	// <nil>
	// belay_jobs_total{class="Welcome",outcome="done",queue="mail"} 1
}

// The dashboard is an http.Handler. Wrap it in your own login, or set web.Config.Authorize.
func Example_dashboardInYourMux() {
	kit := newKit()
	must(Welcome.Enqueue(ctx, kit.Client(), WelcomeArgs{42}))
	mux := http.NewServeMux()
	mux.Handle("/jobs/", http.StripPrefix("/jobs", must(web.New(kit.Client(), web.Config{}))))
	fmt.Println(get(mux, "/jobs/").Code, get(mux, "/jobs/queues").Code)
	// Output: 200 200
}

func get(handler http.Handler, path string) *httptest.ResponseRecorder {
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, path, nil))
	return response
}
