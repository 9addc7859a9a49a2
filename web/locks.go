package web

import (
	"fmt"
	"net/http"

	"github.com/belayq/belay/inspect"
)

// locksBody is what the page of the locks of unique jobs shows.
type locksBody struct {
	Total   int64
	Locks   []inspect.UniqueLock
	Class   string
	Further bool
}

const (
	maxLocks = 100
	// maxLocksRead bounds how many locks are read to find those of a class.
	maxLocksRead = 2000
)

func (d *Dashboard) locks(v *visit) error {
	total, err := d.inspector.LockCount(v.ctx)
	if err != nil {
		return err
	}
	body := locksBody{Total: total, Class: v.form.Get("class")}
	read := 0
	for lock, err := range d.inspector.Locks(v.ctx) {
		if err != nil {
			return err
		}
		if read++; body.Class == "" || lock.Class == body.Class {
			body.Locks = append(body.Locks, lock)
		}
		if len(body.Locks) == maxLocks || read == maxLocksRead {
			body.Further = int64(read) < total
			break
		}
	}
	return d.show(v, "locks", page{Title: "Locks", Nav: "locks", Live: 4, Body: body})
}

func (d *Dashboard) releaseLock(v *visit) error {
	act := Act{Name: "release", Lock: v.form.Get("digest")}
	if act.Lock == "" {
		return fail(http.StatusBadRequest, "The form names no lock.")
	}
	return d.perform(v, act, "locks", func() (flash, []any, error) {
		lock, held, err := d.inspector.ReleaseLock(v.ctx, act.Lock)
		answer := flash{Text: fmt.Sprintf("Released; %s (%s) had held it for %s.", lock.JID, lock.Class, span(lock.Age.Duration))}
		switch {
		case !held:
			answer = flash{Text: "It was released already.", Bad: true}
		case lock.Dirty:
			answer.Problems = []string{"A duplicate was refused while the job ran, and the extra run for it does not take place: push it again."}
		}
		return answer, []any{"held", held, "holder", plain(lock.JID)}, err
	})
}
