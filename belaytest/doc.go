// Package belaytest tests programs that use Belay: which jobs they enqueue, what their handlers do, and whether
// handlers are idempotent. It needs no Redis.
//
//	func TestSignUp(t *testing.T) {
//		kit := belaytest.New(t)
//		app := NewApp(kit.Client())
//		kit.Serve(app.Register) // registers the handlers; main calls it with its server, too
//
//		app.SignUp(t.Context(), "ada@example.org")
//		belaytest.RequireEnqueued(t, kit, Welcome, WelcomeArgs{"ada@example.org"}, belay.Queue("mail"))
//
//		kit.Drain()                 // runs the welcome, and the jobs that it pushes
//		kit.Advance(24 * time.Hour) // runs the reminder that was pushed for tomorrow
//		require.Len(t, app.Sent, 2)
//	}
//
// For a class of belay.DefineResult, the functions take its field Definition:
//
//	belaytest.RequireEnqueued(t, kit, Report.Definition, ReportArgs{Month: 11})
//
// Arguments are stored by position, so a field that is inserted into their struct changes what waiting jobs
// mean. [Wire] fails when the stored form of a class changes:
//
//	belaytest.Wire(t, Welcome, WelcomeArgs{UserID: 42, TeamID: 7}, `{"class":"WelcomeEmail","args":[42,7]}`)
//
// # How it works
//
// A Kit has an in-memory Redis, which runs Belay's own scripts, and a real client of it. Pushed jobs wait there
// until the test runs them: with Drain, or with each push after Inline. Each Drain starts a real belay.Server
// with the handlers that Serve registers, and stops it when no job is due. So arguments, middleware, timeouts,
// panics, retries and the dead set work as in production. Between two calls nothing runs, so a test has nothing
// to wait for or to stop. A failed run fails the test, unless Kit.OnFailure was called.
//
// The Kit cannot test what needs a real Redis or a real crash: outages, a full Redis, recovery, blocked
// connections, speed.
//
// # Time
//
// Advance and DrainAll run scheduled and failed jobs in the order in which they come due, without waiting.
// They change no clock, so periodic jobs do not fire. To test a periodic job, call its handler, push the job,
// or Run a server in a bubble.
//
// Drain does not wait for the Rate of a limit: the next jobs start at once. A Concurrency holds. To test a
// rate, Run a server in a bubble, as below.
//
// In a bubble of testing/synctest the Kit's Redis, clients, servers and handlers use the bubble's time. Sleep
// there, then Drain:
//
//	synctest.Test(t, func(t *testing.T) {
//		kit := belaytest.New(t)
//		...
//		time.Sleep(5 * time.Minute)
//		kit.Drain() // a job pushed with belay.In(5*time.Minute) runs, and time.Now agrees
//	})
//
// A belay.Server that is made from Kit.Client and Run in the bubble, as the program itself would, works too:
// it runs jobs at their exact times while the test sleeps. It also sends heartbeats and polls, so let it run
// for minutes of the bubble's time, not for days. Stop it, and wait until Run has returned, before the bubble
// ends.
package belaytest
