// Package belaytest is for tests of programs that use Belay: what was enqueued, what do handlers do, is it
// the same the second time? It needs no Redis.
//
//	func TestSignUp(t *testing.T) {
//		kit := belaytest.New(t)
//		app := NewApp(kit.Client())
//		kit.Serve(app.Register) // the function to which main gives its server
//
//		app.SignUp(t.Context(), "ada@example.org")
//		belaytest.RequireEnqueued(t, kit, Welcome, WelcomeArgs{"ada@example.org"}, belay.Queue("mail"))
//
//		kit.Drain()                 // the welcome, and what it pushes in turn
//		kit.Advance(24 * time.Hour) // the reminder that was pushed for tomorrow
//		require.Len(t, app.Sent, 2)
//	}
//
// # What it is
//
// A Kit holds a Redis in memory, which runs Belay's own scripts, and a real client of it. Pushed jobs lie
// there until they are run: by Drain when it is called, or, after Inline, by each push. A real belay.Server
// runs them, made anew each time from what Serve was given, and ended when nothing is due: arguments,
// middleware, timeouts, panics, retries and death are the real thing. Between two calls nothing runs, so that
// there is nothing to wait for and nothing to stop. A run that fails fails the test, unless Kit.OnFailure was
// called.
//
// What the Kit cannot show is what only a real Redis or a real crash does: outages, a full Redis, recovery,
// blocked connections, speed.
//
// # Time
//
// Advance and DrainAll run what is for later and what failed, each at its turn, without waiting. They set no
// clock.
//
// In a bubble of testing/synctest everything keeps the bubble's time: the Kit's Redis, clients, servers and
// handlers. Sleep there, then Drain:
//
//	synctest.Test(t, func(t *testing.T) {
//		kit := belaytest.New(t)
//		...
//		time.Sleep(5 * time.Minute)
//		kit.Drain() // a job pushed with belay.In(5*time.Minute) runs, and time.Now agrees
//	})
//
// A belay.Server that is made from Kit.Client and Run in the bubble, as the program itself would, works too:
// it runs jobs at their exact times while the test sleeps. It also does all that a server does each second,
// so let it live for minutes, not for days. Its Run must have returned before the bubble ends.
package belaytest
