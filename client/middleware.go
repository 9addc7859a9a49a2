package client

import (
	"context"
	"errors"

	"github.com/belayq/belay/job/middleware"
)

// A Middleware gets each job before it is checked and sent, and may change it: queue, args, tags, fields.
// Class, queue and JID are set. It may append to slices or replace them, but must not write into them.
//
// If it returns the error of Refuse, the job is not pushed, and the receipt has StatusRefused. Any other
// error fails the push. A Middleware does not wrap the sending, because many jobs are sent in one call. The
// same is true of Sidekiq: the push follows after the last middleware has returned. RawJob.OnPushed reports the
// outcome.
type Middleware func(ctx context.Context, j *RawJob) error

// Refuse returns the error with which a Middleware refuses a job. reason is for people.
func Refuse(reason string) error { return &refusal{reason} }

type refusal struct{ reason string }

func (r *refusal) Error() string { return "belay: refused: " + r.reason }

// reasonOf returns the reason of a refusal.
func reasonOf(err error) (reason string, refused bool) {
	var r *refusal
	if !errors.As(err, &r) {
		return "", false
	}
	return r.reason, true
}

// Use adds middleware under a name, at a place; without a place, after all earlier middleware. It panics if
// the name is taken, if the place does not exist, and after the first push.
func (c *Client) Use(name string, m Middleware, at ...middleware.Place) {
	if c.pushed.Load() {
		panic("belay: Client.Use " + name + " after the first push: add middleware before")
	}
	if err := c.middleware.Add(name, m, at...); err != nil {
		panic("belay: Client.Use: " + err.Error())
	}
}

// RemoveMiddleware removes the middleware of that name, such as one that a library has added. It panics if
// there is none, and after the first push.
func (c *Client) RemoveMiddleware(name string) {
	if c.pushed.Load() {
		panic("belay: Client.RemoveMiddleware " + name + " after the first push: remove middleware before")
	}
	if err := c.middleware.Remove(name); err != nil {
		panic("belay: Client.RemoveMiddleware: " + err.Error())
	}
}
