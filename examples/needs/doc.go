// Package needs has one small tested example for each thing that a team needs in its first weeks: find the one
// you need, and copy it. They run by `go test ./examples/needs`, without a Redis.
//
//	push_test.go     options, delays, many jobs, unique jobs, one job for each key, many tenants,
//	                 a secret argument that Redis must not have
//	run_test.go      retries with an own backoff, giving up, errors with types, timeouts, middleware, priorities,
//	                 results and progress, checkpoints, a graceful stop, periodic jobs in a zone
//	operate_test.go  inspecting, pausing, deleting, cancelling, metrics, the dashboard in a mux of your own
//	app_test.go      a test of a program
//
// Two more need a module of their own: jobs in a database transaction (examples/outbox) and traces
// (contrib/otel).
package needs
