package belaytest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
)

type WelcomeArgs struct{ Address string }

var (
	Welcome  = belay.Define[WelcomeArgs]("WelcomeEmail", belay.Queue("mail"), belay.Idempotent())
	Reminder = belay.Define[WelcomeArgs]("Reminder", belay.Queue("mail"), belay.Idempotent(),
		belay.Unique(belay.UntilExecuted, belay.UniqueOpts{IncludingScheduled: true}))
)

// App is the program under test.
type App struct {
	jobs *belay.Client
	Sent []string
}

func NewApp(jobs *belay.Client) *App { return &App{jobs: jobs} }

// Register is also what main calls.
func (a *App) Register(s *belay.Server) {
	Welcome.Handle(s, a.welcome)
	Reminder.Handle(s, func(_ context.Context, args WelcomeArgs) error {
		a.send("are you there, " + args.Address + "?")
		return nil
	})
}

// A second run sends nothing, and its reminder is refused as a duplicate of the first one.
func (a *App) welcome(ctx context.Context, args WelcomeArgs) error {
	a.send("welcome, " + args.Address)
	_, err := Reminder.Enqueue(ctx, a.jobs, args, belay.In(24*time.Hour))
	return err
}

// send stands for a table of mails with a unique key.
func (a *App) send(mail string) {
	if !slices.Contains(a.Sent, mail) {
		a.Sent = append(a.Sent, mail)
	}
}

func (a *App) SignUp(ctx context.Context, address string) error {
	_, err := Welcome.Enqueue(ctx, a.jobs, WelcomeArgs{address})
	return err
}

// A test of a program, from the sign-up to the reminder a day later.
func Example() {
	t, end := exampleTest() // in a test, t is its *testing.T
	defer end()

	kit := belaytest.New(t)
	app := NewApp(kit.Client())
	kit.Serve(app.Register)

	if err := app.SignUp(context.Background(), "ada@example.org"); err != nil {
		t.Fatal(err)
	}
	found := belaytest.RequireEnqueued(t, kit, Welcome, WelcomeArgs{"ada@example.org"}, belay.Queue("mail"))
	fmt.Println(found)

	fmt.Println(kit.Drain())
	fmt.Println(kit.Advance(24 * time.Hour))
	fmt.Println(app.Sent)
	// Output:
	// WelcomeEmail ["ada@example.org"] in queue mail
	// [WelcomeEmail ["ada@example.org"], attempt 1]
	// [Reminder ["ada@example.org"], attempt 1]
	// [welcome, ada@example.org are you there, ada@example.org?]
}

// Reindex has at most one job for each product.
var Reindex = belay.Define[int64]("Reindex", belay.Idempotent(), belay.Unique(belay.UntilExecuted))

// A duplicate is refused as in production, so RequireEnqueued finds one job.
func ExampleRequireEnqueued_unique() {
	t, end := exampleTest()
	defer end()

	kit := belaytest.New(t)
	for range 2 {
		receipt, err := Reindex.Enqueue(context.Background(), kit.Client(), 42)
		fmt.Println(receipt.Status, err)
	}
	fmt.Println(belaytest.RequireEnqueued(t, kit, Reindex, 42))
	// Output:
	// queued <nil>
	// duplicate <nil>
	// Reindex [42] in queue default
}

// After Inline, a push runs the job before it returns.
func ExampleKit_Inline() {
	t, end := exampleTest()
	defer end()

	kit := belaytest.New(t)
	app := NewApp(kit.Client())
	kit.Serve(app.Register)
	kit.Inline()

	if err := app.SignUp(context.Background(), "ada@example.org"); err != nil {
		t.Fatal(err)
	}
	fmt.Println(app.Sent)
	// Output: [welcome, ada@example.org]
}

// A worker may die after its handler has done the work. Then the job runs again, so handlers should be
// idempotent.
func ExampleIdempotent() {
	t, end := exampleTest()
	defer end()

	kit := belaytest.New(t)
	app := NewApp(kit.Client())
	world := func() any { return fmt.Sprint(app.Sent, len(kit.Waiting())) }
	belaytest.Idempotent(t, Welcome, app.welcome, WelcomeArgs{"ada@example.org"}, world)
	fmt.Println(world())
	// Output: [welcome, ada@example.org] 1
}

// exampleTest replaces the *testing.T that an example does not have.
func exampleTest() (t testing.TB, end func()) {
	e := &example{}
	return e, func() {
		for _, cleanup := range e.cleanups {
			cleanup()
		}
	}
}

type example struct {
	testing.TB
	cleanups []func()
}

func (e *example) Helper()                           {}
func (e *example) Log(args ...any)                   { fmt.Println(args...) }
func (e *example) Cleanup(f func())                  { e.cleanups = append(e.cleanups, f) }
func (e *example) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (e *example) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (e *example) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
