// Package activejob runs ActiveJob classes of a Rails program in Go, and pushes jobs to them.
//
// It exists because Rails stores all of its jobs under one class, with one argument: an object that holds the
// job's own class and its arguments in a form of their own. A [belay.Definition] with the Rails class' name and
// the option [Unwrap] runs them like any other job:
//
//	var Welcome = belay.Define[WelcomeArgs]("WelcomeJob", belay.Queue("mail"), activejob.Unwrap(),
//		belay.NotIdempotent("duplicate emails are acceptable"))
//
//	Welcome.Handle(server, sendWelcome)
//	Welcome.Enqueue(ctx, client, args, activejob.Wrap(activejob.Envelope{}))  // for Ruby, or for Go
//
// # What a handler gets
//
// The arguments of perform, by the rules of package job/args. What ActiveJob wraps is unwrapped:
//
//	in Ruby                               in Go
//	a symbol, a class                     string
//	Time, DateTime, TimeWithZone          time.Time, with the offset and nine digits
//	Date                                  string, such as 2026-11-23
//	a duration, such as 5.minutes         time.Duration; a month is its number of seconds
//	BigDecimal                            string
//	a record (GlobalID)                   string, such as gid://shop/User/42; nothing is loaded
//	a hash, keyword arguments             a struct with names in JSON, or a map; keyword arguments come last
//	a range                               an object with begin, end and exclude_end
//	an object with its own serializer     the text of its value if it has no other field, or else an object
//
// [Attributes] reads CurrentAttributes by the same rules.
//
// # What Go writes
//
// [Symbol], [GlobalID], [Time], [Duration] and [Keywords] arrive in Ruby as the types that they name. In Go
// they read both ActiveJob's form and plain JSON. Any other value arrives in Ruby as JSON: a time.Time as a
// String.
//
// # What it does not do
//
// ActiveJob's retry_on, discard_on and callbacks are Ruby code: a failed run is retried by the rules of the
// payload, as Sidekiq's own retries are. The envelope, including its executions, is not changed, so Ruby may
// run a retry.
//
// The package must never change the payload that is stored: it hands a copy to the handler.
package activejob
