package needs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
)

// Options of one job override those of its class.
func Example_enqueueWithOptions() {
	kit := newKit()
	receipt, err := Welcome.Enqueue(ctx, kit.Client(), WelcomeArgs{42}, belay.Queue("vip"), belay.Retries(3), belay.Tags("signup"))
	fmt.Println(receipt.Status, receipt.Queue, err)
	// Output: queued vip <nil>
}

func Example_delayed() {
	kit := newKit()
	kit.Serve(register)
	receipt, err := Welcome.Enqueue(ctx, kit.Client(), WelcomeArgs{42}, belay.In(10*time.Minute)) // or belay.At(time)
	fmt.Println(receipt.Status, err)
	fmt.Println(kit.Drain())
	fmt.Println(kit.Advance(10 * time.Minute))
	// Output:
	// scheduled <nil>
	// []
	// welcome, user 42
	// [Welcome [42], attempt 1]
}

func Example_bulk() {
	kit := newKit()
	users := slices.Values([]WelcomeArgs{{1}, {2}, {3}}) // any iter.Seq, such as the rows of a query
	receipts, err := Welcome.EnqueueMany(ctx, kit.Client(), users)
	fmt.Println(len(receipts), err)
	// Output: 3 <nil>
}

// Reindex has at most one job that waits or runs for each product.
var Reindex = belay.Define[int64]("Reindex", belay.Idempotent(), belay.Unique(belay.UntilExecuted))

func Example_unique() {
	kit := newKit()
	first := must(Reindex.Enqueue(ctx, kit.Client(), 42))
	second := must(Reindex.Enqueue(ctx, kit.Client(), 42))
	fmt.Println(first.Status, second.Status, second.Holder == first.JID)
	// Output: queued duplicate true
}

type ChargeArgs struct {
	Order  string
	Amount int64
}

// Two charges of one order are equal, whatever else their arguments say.
var Charge = belay.Define[ChargeArgs]("Charge", belay.Idempotent(), belay.Unique(belay.UntilExecuted),
	belay.UniqueBy(func(args ChargeArgs) any { return args.Order }))

func Example_oneForEachKey() {
	kit := newKit()
	fmt.Println(must(Charge.Enqueue(ctx, kit.Client(), ChargeArgs{"order-7", 100})).Status)
	fmt.Println(must(Charge.Enqueue(ctx, kit.Client(), ChargeArgs{"order-7", 200})).Status)
	// Output:
	// queued
	// duplicate
}

// PushOnce gives the push an idempotency key: after a timeout the client sends it again, and later the program
// may, and it is stored once.
func Example_pushOnce() {
	kit := newKit()
	receipt := must(Welcome.Enqueue(ctx, kit.Client(), WelcomeArgs{42}, belay.PushOnce()))
	again := must(kit.Client().Repeat(ctx, receipt))
	fmt.Println(again.JID == receipt.JID, len(kit.Waiting()))
	// Output: true 1
}

// The tenant travels with the job. Middleware of the server can read it too, by Job.Meta.
func Example_tenants() {
	kit := newKit()
	kit.Serve(func(server *belay.Server) {
		Welcome.Handle(server, func(ctx context.Context, args WelcomeArgs) error {
			run, _ := belay.Info(ctx)
			fmt.Println(run.Meta["tenant"], args.UserID)
			return nil
		})
	})
	must(Welcome.Enqueue(ctx, kit.Client(), WelcomeArgs{42}, belay.Meta("tenant", "acme")))
	kit.Drain()
	// Output: acme 42
}

// With a prefix of its own a tenant has its own keys in the same Redis: its own queues, sets and workers.
func Example_prefix() {
	kit := belaytest.NewWith(noTest{}, belay.ClientConfig{Prefix: "acme"})
	other := must(belay.NewClient(kit.Client().Driver(), &belay.ClientConfig{Prefix: "globex"}))
	must(Welcome.Enqueue(ctx, other, WelcomeArgs{42}))
	fmt.Println(len(kit.Waiting()))
	// Output: 0
}

type PayArgs struct{ Order, Card string }

// Redis has the order in plain text, and the card encrypted: also in its snapshots, in logs and on dashboards. A
// program has its keys from a variable, by belay.KeysFromEnv.
var Pay = belay.Define[PayArgs]("Pay", belay.Idempotent(),
	belay.Encrypted(must(belay.ParseKeys("2026-09:d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f55a1b0c4"))))

func Example_secretArgument() {
	kit := newKit()
	kit.Serve(func(server *belay.Server) {
		Pay.Handle(server, func(_ context.Context, args PayArgs) error {
			fmt.Println("pay with", args.Card)
			return nil
		})
	})
	must(Pay.Enqueue(ctx, kit.Client(), PayArgs{"order-7", "4111-1111"}))
	fmt.Println(strings.Contains(kit.Waiting()[0].Job.Raw(), "4111"), kit.Waiting()[0])
	kit.Drain()
	// Output:
	// false Pay ["order-7","[encrypted, key 2026-09]"] in queue default
	// pay with 4111-1111
}
