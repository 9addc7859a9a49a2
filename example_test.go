package belay_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/belayq/belay"
)

// WelcomeArgs are [42,"short"] on the wire: perform(user_id, template) in Ruby.
type WelcomeArgs struct {
	UserID   int64
	Template string
}

// Welcome is all that producers and workers share.
var Welcome = belay.Define[WelcomeArgs]("WelcomeEmail", belay.Queue("mail"), belay.MaxRetries(5))

// A whole program: a job is pushed, and a server runs it.
func Example() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	receipt, err := Welcome.Enqueue(ctx, client, WelcomeArgs{UserID: 42})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.Status, "in", receipt.Queue)

	server := belay.NewServer(client, belay.Concurrency(25), belay.Queues("critical", "mail"))
	Welcome.Handle(server, func(ctx context.Context, args WelcomeArgs) error {
		fmt.Println("welcome, user", args.UserID)
		server.Stop() // a real one runs until its context ends
		return nil
	})
	if err := server.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// queued in mail
	// welcome, user 42
}

// Many jobs go in slices, which are pushed while the iterator is drawn from.
func ExampleDefinition_EnqueueMany() {
	ctx := context.Background()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	receipts, err := Welcome.EnqueueMany(ctx, client, slices.Values([]WelcomeArgs{{UserID: 1}, {UserID: 2}, {UserID: 3}}))
	var bulk *belay.BulkError
	if errors.As(err, &bulk) {
		log.Fatalf("only %d are in: %v", bulk.Queued, err)
	}
	fmt.Println(len(receipts), receipts[2].Status)
	// Output: 3 queued
}

// A class that only Ruby knows needs no definition to be pushed, and none to be run.
func ExampleServer_HandleClass() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	_, err = client.Push(ctx, belay.Item{Class: "HardJob", Args: []any{1, 2.0, []string{"x"}}})
	if err != nil {
		log.Fatal(err)
	}
	server := belay.NewServer(client)
	server.HandleClass(belay.AnyClass, func(ctx context.Context, j *belay.Job) error {
		fmt.Println(j.Class(), j.ArgsJSON())
		server.Stop()
		return nil
	})
	if err := server.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: HardJob [1,2.0,["x"]]
}

// What a handler returns says what becomes of its job; any other error is retried.
func ExampleDiscard() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	for user := range int64(2) {
		if _, err := Welcome.Enqueue(ctx, client, WelcomeArgs{UserID: user}); err != nil {
			log.Fatal(err)
		}
	}
	server := belay.NewServer(client, belay.Queues("mail"), belay.Concurrency(1))
	Welcome.Handle(server, func(ctx context.Context, args WelcomeArgs) error {
		run, _ := belay.Info(ctx)
		fmt.Printf("%s from %s, attempt %d\n", run.Class, run.Queue, run.Attempt)
		if args.UserID == 0 {
			return belay.Discard(errors.New("there is no user 0"))
		}
		server.Stop()
		return nil
	})
	server.OnError(func(ctx context.Context, j *belay.Job, err error) { fmt.Println("failed:", err) })
	if err := server.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// WelcomeEmail from mail, attempt 1
	// failed: there is no user 0
	// WelcomeEmail from mail, attempt 1
}

// Middleware may keep a job out. That is an answer, not an error.
func ExampleOnPush() {
	ctx := context.Background()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url, belay.OnPush(func(ctx context.Context, item *belay.Item) error {
		if item.Queue == "mail" {
			return belay.Refuse("mail is switched off")
		}
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	receipt, err := Welcome.Enqueue(ctx, client, WelcomeArgs{UserID: 42})
	fmt.Println(receipt.Status, receipt.Reason, err)
	// Output: refused mail is switched off <nil>
}

// exampleRedis stands for your Redis. It is a fake one.
func exampleRedis() (url string, stop func()) {
	fake, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	return "redis://" + fake.Addr(), fake.Close
}
