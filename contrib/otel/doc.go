// Package belayotel traces Belay's jobs with OpenTelemetry. It records a span for each push, a child span for
// each run, also when another process runs the job, and the metrics of the messaging conventions.
//
// It has two middleware functions, one for the client and one for the server:
//
//	client.Use("otel", belayotel.Push(belayotel.Config{}), belay.Place{Last: true})
//	server.Use("otel", belayotel.Run(belayotel.Config{}), belay.Place{First: true})
//
// The context of a push travels in the job's payload, in the fields traceparent and tracestate of W3C Trace
// Context. The OpenTelemetry instrumentation of Ruby's Sidekiq uses the same fields, so traces continue from
// Go to Ruby and back. Every run of a job, including each retry, has a span of its own under the span of its
// push.
//
// # Spans
//
// Names and attributes are those of the semantic conventions for messaging, version 1.43.0. Both spans have
// messaging.system ("belay"), messaging.destination.name (the queue), messaging.message.id (the jid),
// messaging.operation.name and messaging.operation.type, and
//
//	span           kind      attributes of Belay
//	push QUEUE     producer  belay.job.class, belay.push.status: queued, scheduled, prepared (in an
//	                         outbox), duplicate, refused, unknown or not_pushed
//	run QUEUE      consumer  belay.job.class, belay.job.attempt, belay.job.outcome: done, retry, dead,
//	                         discarded, cancelled, expired, snoozed, requeued or waits (for its
//	                         limit, after RateLimited); lost if its process was declared dead and
//	                         another one runs the job
//
// The span of a push lasts until Redis has answered. In a bulk push each job has its own. The span of a run
// lasts as long as its handler. A failed push or run has the status Error, error.type, and the error as an
// event. The error.type of a push is unknown, full, invalid or old_worker for the errors of these names,
// otherwise the error's type. The error.type of a run is the error class that the dashboard shows: panic for
// a panic.
//
// # Metrics
//
//	messaging.client.sent.messages       number of jobs that were sent to Redis
//	messaging.client.operation.duration  duration of their pushes
//	messaging.client.consumed.messages   number of runs
//	messaging.process.duration           duration of runs
//
// Their attributes are the system, the operation, the queue, the class, the status or the outcome, and
// error.type. Config.MaxNames bounds the number of queues, classes and error types that metrics distinguish.
//
// # Trust
//
// Any program that can push to Redis chooses the trace of its jobs' runs, and whether they are sampled. Set
// Config.LinkRuns to begin a new trace for each run. A context of the wrong form or size is ignored.
//
// This package must never fail a push or a run, and never use text from a payload as an attribute without
// bounding its length.
package belayotel
