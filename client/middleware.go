package client

import (
	"context"
	"errors"
)

// A Middleware sees each job before it is checked and sent, and may change it: queue, args, tags, fields. The class,
// queue and JID are set; slices are the job's own to append to or replace, not to write into.
//
// With Refuse as its error the job is not pushed and the receipt says so; any other error fails the push. It does not
// wrap the sending, as Sidekiq's seems to (there, too, the push comes after the last middleware has returned): many
// jobs are sent at once, so there is no moment that would be one job's own.
type Middleware func(ctx context.Context, j *Job) error

// Refuse is the error with which a Middleware keeps a job from being pushed. reason is for people.
func Refuse(reason string) error { return &refusal{reason} }

type refusal struct{ reason string }

func (r *refusal) Error() string { return "belay: refused: " + r.reason }

// reasonOf is the reason of a refusal.
func reasonOf(err error) (reason string, refused bool) {
	var r *refusal
	if !errors.As(err, &r) {
		return "", false
	}
	return r.reason, true
}
