package belay_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/belayq/belay"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/job"
)

// Many jobs go in slices, which are pushed while the iterator is drawn from.
func ExampleDefinition_EnqueueMany() {
	ctx := context.Background()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url, nil)
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

// Any number of jobs, with progress: memory holds one slice.
func ExampleDefinition_EnqueueSeq() {
	ctx := context.Background()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	users := func(yield func(WelcomeArgs) bool) { // rows of a database, lines of a file
		for id := int64(1); id <= 1000 && yield(WelcomeArgs{UserID: id}); id++ {
		}
	}
	pushed := 0
	n, err := Welcome.EnqueueSeq(ctx, client, users, func(receipts []belay.Receipt, err error) {
		pushed += len(receipts) // a progress bar
		if err != nil {
			log.Print(err) // an invalid job was left out, or this slice was the last one
		}
	})
	fmt.Println(n, pushed, err)
	// Output: 1000 1000 <nil>
}

// A push whose answer is lost is sent again by the client for a while, and later by the program; it is stored
// once.
func ExamplePushOnce() {
	ctx := context.Background()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url, &belay.ClientConfig{RepeatFor: 5 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	receipt, err := Welcome.Enqueue(ctx, client, WelcomeArgs{UserID: 42}, belay.PushOnce())
	if errors.Is(err, belay.ErrUnknown) {
		// Redis has been away for all that time. The receipt can be kept, for a day; here it is tried once
		// more.
		receipt, err = client.Repeat(ctx, receipt)
	}
	fmt.Println(receipt.Status, err)
	// Output: queued <nil>
}

// A webhook's sender repeats an event until it gets an answer, and the job is stored once.
func ExampleKey() {
	ctx := context.Background()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	var first string
	for range 2 {
		receipt, err := Welcome.Enqueue(ctx, client, WelcomeArgs{UserID: 42}, belay.Key("event:123", 72*time.Hour))
		if first == "" {
			first = receipt.JID
		}
		fmt.Println(receipt.Status, receipt.Holder == first, err)
	}
	// Output:
	// queued false <nil>
	// duplicate true <nil>
}

// A job is cancelled by its jid. One that waits is removed; one that runs ends without a retry.
func Example_cancel() {
	ctx := context.Background()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	receipt, err := Welcome.Enqueue(ctx, client, WelcomeArgs{UserID: 42}, belay.In(time.Hour), belay.ExpiresIn(10*time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	results, err := inspect.New(client).Cancel(ctx, receipt.JID, "another")
	if err != nil {
		log.Fatal(err)
	}
	for _, result := range results {
		fmt.Println(result.Result, result.Place)
	}
	// Output:
	// removed scheduled
	// marked not_found
}

// A long job reads page after page, as of an SQL query, and goes on where it was when its server stops.
func ExamplePages() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	// SELECT id FROM users WHERE id >= $1 ORDER BY id LIMIT 3
	users := []int64{10, 20, 30, 40, 50}
	page := func(ctx context.Context, from int64) ([]int64, error) {
		first, _ := slices.BinarySearch(users, from)
		return users[first:min(first+3, len(users))], ctx.Err()
	}
	notify := belay.Define[struct{}]("NotifyAll", belay.NotIdempotent("a few duplicate notifications are acceptable"))
	if _, err := notify.Enqueue(ctx, client, struct{}{}); err != nil {
		log.Fatal(err)
	}
	for range 2 { // two servers, one after the other
		server, err := belay.NewServer(client, belay.ServerConfig{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			log.Fatal(err)
		}
		notify.Handle(server, func(ctx context.Context, _ struct{}) error {
			return belay.Pages(ctx, page, func(id int64) int64 { return id }, func(_ context.Context, id int64) error {
				fmt.Println("notify", id)
				if id == 30 || id == 50 {
					server.Stop() // as a deployment does
				}
				return nil
			})
		})
		if err := server.Run(ctx); err != nil {
			log.Fatal(err)
		}
		fmt.Println("stopped")
	}
	// Output:
	// notify 10
	// notify 20
	// notify 30
	// stopped
	// notify 40
	// notify 50
	// stopped
}

// A class that only Ruby knows needs no definition to be pushed, and none to be run.
func ExampleServer_HandleUnknown() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	_, err = client.Push(ctx, belay.RawJob{Class: "HardJob", Args: []any{1, 2.0, []string{"x"}}})
	if err != nil {
		log.Fatal(err)
	}
	server, err := belay.NewServer(client, belay.ServerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	server.HandleUnknown(func(ctx context.Context, j *belay.Job) error {
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
	client, err := belay.Open(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	for user := range int64(2) {
		if _, err := Welcome.Enqueue(ctx, client, WelcomeArgs{UserID: user}); err != nil {
			log.Fatal(err)
		}
	}
	server, err := belay.NewServer(client, belay.ServerConfig{Queues: belay.Queues("mail"), Concurrency: 1})
	if err != nil {
		log.Fatal(err)
	}
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
func ExampleRefuse() {
	ctx := context.Background()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	client.Use("switch", func(ctx context.Context, job *belay.RawJob) error {
		if job.Queue == "mail" {
			return belay.Refuse("mail is switched off")
		}
		return nil
	})

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

// A job for later, and options of one job that override those of its class.
func ExampleDefinition_Enqueue() {
	ctx := context.Background()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	receipt, err := Welcome.Enqueue(ctx, client, WelcomeArgs{UserID: 42}, belay.In(5*time.Minute), belay.Queue("low"))
	fmt.Println(receipt.Status, "for", receipt.Queue, err)
	// Output: scheduled for low <nil>
}

// Mailer has what its handlers need, and answers what it handles. A constructor that returns registrations
// needs to know no server, and a container can gather them all.
type Mailer struct{ from string }

func (m *Mailer) Jobs() []belay.Registration {
	return []belay.Registration{Welcome.Handler(m.welcome), Reminder.Handler(m.remind)}
}

func (m *Mailer) welcome(_ context.Context, args WelcomeArgs) error {
	fmt.Println(m.from, "welcomes user", args.UserID)
	return nil
}

func (m *Mailer) remind(_ context.Context, userIDs []int64) error {
	fmt.Println(m.from, "reminds users", userIDs)
	return nil
}

// Reminder has one argument, a list: perform(user_ids) in Ruby.
var Reminder = belay.Define[[]int64]("Reminder", belay.Queue("mail"),
	belay.NotIdempotent("the mail provider has no idempotency keys; duplicate reminders are acceptable"))

func ExampleServer_Register() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	jobs := (&Mailer{from: "ada"}).Jobs()
	server, err := belay.NewServer(client, belay.ServerConfig{Queues: belay.Queues("mail"), Concurrency: 1})
	if err != nil {
		log.Fatal(err)
	}
	server.Register(jobs...)
	server.Use("stop", func(next belay.Handler) belay.Handler {
		return func(ctx context.Context, j *belay.Job) error {
			if j.Class() == Reminder.Class() {
				server.Stop()
			}
			return next(ctx, j)
		}
	})
	if _, err = Welcome.Enqueue(ctx, client, WelcomeArgs{UserID: 42}); err != nil {
		log.Fatal(err)
	}
	if _, err = Reminder.Enqueue(ctx, client, []int64{1, 2}); err != nil {
		log.Fatal(err)
	}
	if err := server.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// ada welcomes user 42
	// ada reminds users [1 2]
}

// How Go values and the arguments in Redis correspond.
func ExampleDefine_arguments() {
	type Address struct {
		City string `json:"city"`
	}
	type OrderArgs struct {
		ID      int64
		Total   float64
		Ship    Address           // a nested struct is an object
		Coupon  *string           // null when there is none
		Labels  map[string]string // in the order of its keys
		Express bool              `json:",omitempty"` // left out when it is last and false
		Extra   []any             `belay:",rest"`     // what stands behind
	}
	show := func(item belay.RawJob) {
		text, err := job.MarshalArgs(item.Args)
		fmt.Println(text, err)
	}
	order := belay.Define[OrderArgs]("Order", belay.Idempotent())
	show(order.Job(OrderArgs{ID: 9007199254740993, Total: 12, Ship: Address{"Oslo"}, Labels: map[string]string{"b": "2", "a": "1"}}))
	show(order.Job(OrderArgs{ID: 1, Extra: []any{"gift", 2}}))
	show(belay.Define[int]("Count", belay.Idempotent()).Job(5))
	show(belay.Define[[]int]("Sum", belay.Idempotent()).Job([]int{1, 2}))
	// Output:
	// [9007199254740993,12.0,{"city":"Oslo"},null,{"a":"1","b":"2"}] <nil>
	// [1,0.0,{"city":""},null,null,false,"gift",2] <nil>
	// [5] <nil>
	// [[1,2]] <nil>
}

type ReindexArgs struct {
	ProductID int64
	AskedBy   string
}

// Reindex is one job for a product at a time, whichever caller pushes it. Pushes while it
// runs make it run once more.
var Reindex = belay.Define[ReindexArgs]("Reindex", belay.Idempotent(),
	belay.Unique(belay.UntilExecuted, belay.UniqueOpts{Fields: []string{"ProductID"}, RescheduleOnce: true}))

func ExampleUnique() {
	ctx := context.Background()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	client, err := belay.Open(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	var ids []string
	for _, args := range []ReindexArgs{{42, "Ann"}, {42, "Ben"}, {43, "Ann"}} {
		receipt, err := Reindex.Enqueue(ctx, client, args)
		ids = append(ids, receipt.JID)
		fmt.Println(args.ProductID, receipt.Status, receipt.Holder == ids[0], err)
	}
	// Output:
	// 42 queued false <nil>
	// 42 duplicate true <nil>
	// 43 queued false <nil>
}
