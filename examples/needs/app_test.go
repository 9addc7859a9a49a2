package needs_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
)

type WelcomeArgs struct{ UserID int64 }

// The class that most examples use.
var Welcome = belay.Define[WelcomeArgs]("Welcome", belay.Queue("mail"), belay.NotIdempotent("a second email is acceptable"))

var ctx = context.Background() // a program uses that of its request, its job or its main

func welcome(_ context.Context, args WelcomeArgs) error {
	fmt.Println("welcome, user", args.UserID)
	return nil
}

// register is what a program calls with its server.
func register(server *belay.Server) { Welcome.Handle(server, welcome) }

func signUp(ctx context.Context, client *belay.Client, user int64) error {
	_, err := Welcome.Enqueue(ctx, client, WelcomeArgs{user})
	return err
}

// What does the program enqueue, and does it run?
func TestSignUpSendsAWelcome(t *testing.T) {
	kit := belaytest.New(t)
	kit.Serve(register)
	if err := signUp(t.Context(), kit.Client(), 42); err != nil {
		t.Fatal(err)
	}
	belaytest.RequireEnqueued(t, kit, Welcome, WelcomeArgs{42}, belay.Queue("mail"))
	if runs := kit.Drain(); len(runs) != 1 {
		t.Fatal(runs)
	}
}

// newKit returns the in-memory Redis of belaytest, with a client and a server. Your tests pass their
// *testing.T to belaytest.New; examples have none.
func newKit() *belaytest.Kit { return belaytest.New(noTest{}) }

type noTest struct{ testing.TB }

func (noTest) Helper()                           {}
func (noTest) Log(...any)                        {}
func (noTest) Cleanup(func())                    {}
func (noTest) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (noTest) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// must returns a value, or panics: it keeps the examples short.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
