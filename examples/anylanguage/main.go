// Command anylanguage pushes jobs that a Python program handles: welcome.py beside it. The worker is `belay
// work`.
//
//	export REDIS_URL=redis://localhost:6379/0
//	go run ./examples/anylanguage
//	belay work -q mail --exec 'WelcomeEmail=python3 examples/anylanguage/welcome.py outbox'
//
// A handler in any language reads the job's arguments, a JSON array, on its standard input. Exit status 0 is
// success. Any other is a failure that is retried, with the end of its standard error as the message. import.py
// is a long job that continues where its last run ended, and has a result.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/belayq/belay"
)

// WelcomeArgs are [user_id, template] to Python.
type WelcomeArgs struct {
	UserID   int64
	Template string
}

var Welcome = belay.Define[WelcomeArgs]("WelcomeEmail", belay.Queue("mail"), belay.NotIdempotent("duplicate emails are acceptable"))

func main() {
	ctx := context.Background()
	client, err := belay.Open(ctx, os.Getenv("REDIS_URL"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for _, args := range []WelcomeArgs{{42, "short"}, {9007199254740993, "long"}, {0, "short"}} {
		receipt, err := Welcome.Enqueue(ctx, client, args)
		fmt.Println(receipt.Status, args.UserID, err)
	}
}
