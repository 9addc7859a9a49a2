package web

import (
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
