// Package jobs is good and bad definitions, each bad one with what is said of it.
package jobs

import (
	"context"
	"os"
	"time"

	"github.com/belayq/belay"
)

type WelcomeArgs struct{ UserID int64 }

// What is declared, however the options come, is fine.
var (
	_ = belay.Define[WelcomeArgs]("Welcome", belay.Idempotent())
	_ = belay.Define[WelcomeArgs]("Welcome", belay.Queue("mail"), belay.NotIdempotent("a second mail is acceptable"))
	_ = belay.Define[WelcomeArgs]("Welcome", mail)
	_ = belay.Define[int64]("Charge", belay.NotIdempotent("the bank is asked first"), belay.Unique(belay.UntilExecuted)) // refused as any other
	_ = belay.Define[WelcomeArgs]("Welcome", both...)
	_ = belay.Define[WelcomeArgs]("Welcome", []belay.DefineOption{(belay.Idempotent())}...)
)

var (
	mail = belay.NotIdempotent(why)
	both = []belay.DefineOption{belay.Queue("mail"), mail}
)

const why = "a second " + "mail is acceptable"

// What cannot be seen is believed.
var (
	_ = belay.Define[int]("Welcome", house())
	_ = belay.Define[int]("Welcome", all()...)
	_ = belay.Define[int]("Welcome", changing)
	_ = belay.Define[int]("Welcome", belay.NotIdempotent(os.Getenv("WHY")))
)

var changing = belay.DefineOption(belay.Timeout(1))

func init() { changing = belay.Idempotent() }

func house() belay.DefineOption { return belay.Idempotent() }

func all() []belay.DefineOption { return []belay.DefineOption{belay.Idempotent()} }

const report = "Report"

var (
	_ = belay.Define[int]("Welcome")                                                              // want `^Welcome has neither Idempotent nor NotIdempotent: its jobs run twice if a worker dies at the wrong moment$`
	_ = belay.Define[WelcomeArgs](report, belay.Queue("mail"), belay.Unique(belay.UntilExecuted)) // want `^Report has neither`
	_ = belay.DefineResult[int, int]("Sum", belay.Track(time.Hour))                               // want `^Sum has neither`
	_ = belay.Define[int](os.Getenv("CLASS"))                                                     // want `^a class has neither`
	_ = belay.Define[int]("Welcome", nil...)                                                      // want `^Welcome has neither`
	_ = belay.Define[int]("Welcome", plain, seldom)                                               // want `^Welcome has neither`
	_ = belay.Define[int]("Welcome", few...)                                                      // want `^Welcome has neither`
	_ = belay.Define[int]("Welcome", rare())                                                      // want `^Welcome has neither`
	_ = belay.Define[int]("Welcome", belay.Idempotent(), belay.NotIdempotent("it is not"))        // want `^Welcome has both Idempotent and NotIdempotent$`
	_ = belay.Define[int]("Welcome", belay.NotIdempotent(""))                                     // want `^NotIdempotent has no reason: say why a second effect is acceptable$`
	_ = belay.NotIdempotent(" \t")                                                                // want `^NotIdempotent has no reason`
)

var (
	plain  = belay.Queue("mail")
	seldom = belay.OnExhausted(func(context.Context, int, *belay.Job, error) {})
	few    = []belay.DefineOption{plain, seldom}
)

// What is an option of jobs says nothing of the class, whoever returns it.
func rare() belay.JobOption { return belay.Queue("rare") }

func inside() {
	local := belay.Define[int]("Local") // want `^Local has neither`
	_ = local
}
