// Command embedded is a web server that works off its own jobs: one program, one process, one deploy.
//
//	go run ./examples/embedded -addr 127.0.0.1:8080
//	curl -X POST '127.0.0.1:8080/users?id=42'
//	curl 127.0.0.1:8080/readyz
//
// What matters is the order in which it ends (see shutDown): requests may still push jobs while jobs are not
// taken any more, and nothing that a request or a job needs is closed before both are done.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/belayq/belay"
)

// WelcomeArgs are [42] on the wire.
type WelcomeArgs struct{ UserID int }

// Welcome is what a request leaves for later.
var Welcome = belay.Define[WelcomeArgs]("WelcomeEmail", belay.Queue("mail"), belay.NotIdempotent("duplicate emails are acceptable"))

var (
	addr     = flag.String("addr", "127.0.0.1:8080", "address of the web server")
	redisURL = flag.String("redis", cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379/0"), "URL of Redis")
	drain    = flag.Duration("drain", 5*time.Second, "how long a load balancer needs to see that /readyz says no")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // a second signal ends the program as it always would; its jobs are recovered
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	client, err := belay.Open(ctx, *redisURL, nil)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // last: requests and jobs push with it
	jobs, err := belay.NewServer(client, belay.ServerConfig{Queues: belay.Queues("mail"), Concurrency: 10, ShutdownTimeout: 20 * time.Second})
	if err != nil {
		return err
	}
	Welcome.Handle(jobs, sendWelcome)
	web := &http.Server{Handler: routes(client, jobs), ReadHeaderTimeout: 5 * time.Second}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())

	serving, working := make(chan error, 1), make(chan error, 1)
	go func() { serving <- web.Serve(listener) }()
	go func() { working <- jobs.Run(context.WithoutCancel(ctx)) }() // shutDown says when it ends, not the signal
	select {
	case <-ctx.Done():
		return errors.Join(shutDown(web, jobs), <-working)
	case err := <-working: // Redis refuses us: without a worker the web server ends too
		return errors.Join(err, web.Close())
	case err := <-serving:
		jobs.Stop()
		return errors.Join(err, <-working)
	}
}

// shutDown is a deploy without a lost request or job.
func shutDown(web *http.Server, jobs *belay.Server) error {
	// 1. /readyz says no, and no more jobs are taken. Requests are still served: the load balancer sends some
	// until it has
	//    asked /readyz again.
	jobs.Quiet()
	time.Sleep(*drain)
	// 2. Requests that are under way end. What they push waits in Redis for the other processes.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := web.Shutdown(ctx)
	// 3. Jobs that are running have the shutdown timeout; what is not done then goes back to its queue.
	jobs.Stop()
	return err
}

func routes(client *belay.Client, jobs *belay.Server) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /users", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.FormValue("id"))
		if err != nil {
			http.Error(w, "id is a number", http.StatusBadRequest)
			return
		}
		receipt, err := Welcome.Enqueue(r.Context(), client, WelcomeArgs{UserID: id})
		if err != nil {
			http.Error(w, "try again later", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, receipt.JID)
	})
	health := jobs.Health()
	mux.Handle("/healthz", health)
	mux.Handle("/readyz", health)
	return mux
}

// sendWelcome takes its time, as sending mail does.
func sendWelcome(ctx context.Context, args WelcomeArgs) error {
	fmt.Println("begin", args.UserID)
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	fmt.Println("welcome", args.UserID)
	return nil
}
