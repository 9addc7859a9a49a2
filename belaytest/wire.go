package belaytest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/belayq/belay"
	"github.com/belayq/belay/job"
)

// Wire fails the test if jobs of the definition with these arguments are no longer stored as want, such as
//
//	belaytest.Wire(t, Welcome, WelcomeArgs{UserID: 42, TeamID: 7}, `{"class":"WelcomeEmail","args":[42,7]}`)
//
// A field that is inserted, moved or removed changes the arguments of a class without any other error: jobs
// that wait were written in the old form, and the new code reads their arguments into other fields. So one such
// test for each class shows the change before a deploy does. Choose arguments that differ from each other and
// are not zero. The failure shows what the new code makes of the old form. The arguments of an Encrypted class
// are compared as they are before the encryption.
func Wire[T any](t testing.TB, d *belay.Definition[T], args T, want string) {
	t.Helper()
	argsJSON, err := job.MarshalArgs(d.Job(args).Args)
	if err != nil {
		t.Fatalf("belaytest: %s: %v", d.Class(), err)
	}
	got := wire{d.Class(), json.RawMessage(argsJSON)}
	stored, err := readWire(want)
	if err != nil {
		t.Fatalf("belaytest: want of %s: %v; it must be %s", d.Class(), err, got)
	}
	if stored.String() != got.String() {
		t.Fatalf(wireChanged, d.Class(), got, stored, readBy(d, stored))
	}
}

const wireChanged = `belaytest: the wire form of %s has changed. New jobs are stored as
	%s
and jobs that wait, are scheduled or will be retried as
	%s
%s
During a deploy, workers with the old code get jobs in the new form, too.
Add new fields at the end, and deploy workers before producers. For any other change define a new class, and keep
the old one until its jobs are gone. Then, or if there are no such jobs, change the form that the test wants.`

// wire is the part of a payload that producers and workers of a class must agree on.
type wire struct {
	Class string          `json:"class"`
	Args  json.RawMessage `json:"args"`
}

func (w wire) String() string {
	class, _ := job.Marshal(w.Class) // Define has checked it, or it was read from JSON
	return fmt.Sprintf(`{"class":%s,"args":%s}`, class, w.Args)
}

// readWire reads a wire in any spelling of its JSON.
func readWire(text string) (w wire, err error) {
	if err = json.Unmarshal([]byte(text), &w); err != nil {
		return w, err
	}
	args, err := job.Marshal(w.Args) // in Ruby's spelling, as in a payload
	w.Args = json.RawMessage(args)
	return w, err
}

// readBy describes what a handler of the definition gets for a job in this form.
func readBy[T any](d *belay.Definition[T], stored wire) string {
	if stored.Class != d.Class() {
		return fmt.Sprintf("The new code has no handler for the class %s in this definition.", stored.Class)
	}
	old, err := job.Parse(job.Draft{Class: stored.Class, JID: "1", ArgsJSON: string(stored.Args)}.Encode())
	if err == nil {
		var args T
		if args, err = d.Args(old); err == nil {
			return fmt.Sprintf("of which the new code makes\n\t%+v", args)
		}
	}
	return fmt.Sprintf("with which the new code fails:\n\t%v", err)
}
