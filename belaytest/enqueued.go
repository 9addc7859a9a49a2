package belaytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/belayq/belay"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/job/seal"
)

// RequireEnqueued fails the test unless exactly one waiting job of the definition has these arguments and
// matches the options. It returns that job.
//
// Only the given options are compared. In and At are compared with those of the push, not with the time that
// is left. Jobs that wait for a retry, and those that have run, do not count: see Kit.Waiting and Kit.Runs.
func RequireEnqueued[T any](t testing.TB, k *Kit, d *belay.Definition[T], want T, options ...belay.JobOption) Waiting {
	t.Helper()
	w := wantedOf(t, d, []T{want}, options)
	found, others := k.match(w)
	if len(found) != 1 {
		t.Fatalf("belaytest: want 1 job enqueued as %s, found %d%s", w, len(found), others)
	}
	return found[0]
}

// RequireEnqueuedMany fails the test unless the waiting jobs of the definition that match the options have
// exactly these arguments, in any order.
func RequireEnqueuedMany[T any](t testing.TB, k *Kit, d *belay.Definition[T], want []T, options ...belay.JobOption) {
	t.Helper()
	w := wantedOf(t, d, nil, options)
	found, others := k.match(w)
	left := wantedOf(t, d, want, options).args
	for _, waiting := range found {
		args := w.plain(waiting.Job)
		at := slices.Index(left, args)
		if at < 0 {
			t.Fatalf("belaytest: unexpected %s among %d jobs enqueued as %s%s", args, len(found), w, listed(found)+others)
		}
		left = slices.Delete(left, at, at+1)
	}
	if len(left) > 0 {
		t.Fatalf("belaytest: missing %s among %d jobs enqueued as %s%s", strings.Join(left, " "), len(found), w, listed(found)+others)
	}
}

// RequireEnqueuedFunc fails the test unless the function match returns true for the arguments of exactly one
// enqueued job that also has these options.
func RequireEnqueuedFunc[T any](t testing.TB, k *Kit, d *belay.Definition[T], match func(args T) bool, options ...belay.JobOption) Waiting {
	t.Helper()
	w := wantedOf(t, d, nil, options)
	found, others := k.match(w)
	matching := slices.DeleteFunc(slices.Clone(found), func(waiting Waiting) bool { return !match(Args(t, d, waiting.Job)) })
	if len(matching) != 1 {
		t.Fatalf("belaytest: want 1 job enqueued as %s with arguments that match, found %d%s", w, len(matching), listed(found)+others)
	}
	return matching[0]
}

// RequireNotEnqueued fails the test if any waiting job of the definition matches the options, whatever its
// arguments are.
func RequireNotEnqueued[T any](t testing.TB, k *Kit, d *belay.Definition[T], options ...belay.JobOption) {
	t.Helper()
	w := wantedOf(t, d, nil, options)
	if found, _ := k.match(w); len(found) > 0 {
		t.Fatalf("belaytest: want no job enqueued as %s, found %d%s", w, len(found), listed(found))
	}
}

// Args returns a job's arguments as a handler of the definition gets them. Arguments of other types fail the
// test.
func Args[T any](t testing.TB, d *belay.Definition[T], j *belay.Job) T {
	t.Helper()
	args, err := d.Args(j)
	if err != nil {
		t.Fatalf("belaytest: %v", err)
	}
	return args
}

// wanted describes a job that a test requires.
type wanted struct {
	class string
	args  []string // the accepted arguments as JSON; empty accepts all
	// checks are those of the options.
	checks []check
	// plain returns the arguments of a job of the class as JSON, decrypted.
	plain func(j *belay.Job) string
}

func wantedOf[T any](t testing.TB, d *belay.Definition[T], args []T, options []belay.JobOption) wanted {
	t.Helper()
	w := wanted{class: d.Class(), plain: func(j *belay.Job) string { return plainArgs(d, j) }}
	for _, arg := range args {
		text, err := job.MarshalArgs(d.Job(arg).Args)
		if err != nil {
			t.Fatalf("belaytest: %s cannot be pushed with %+v: %v", d.Class(), arg, err)
		}
		w.args = append(w.args, text)
	}
	if err := checkOptions(w.class, options); err != nil {
		t.Fatalf("belaytest: %s: %v", w.class, err)
	}
	w.checks = checksOf(options)
	return w
}

// plainArgs returns the arguments of a job as JSON, and those of an Encrypted class as they were pushed. If a
// key is missing, it returns what a dashboard shows.
func plainArgs[T any](d *belay.Definition[T], j *belay.Job) string {
	shown := seal.Shown(j)
	if shown == j.ArgsJSON() {
		return shown
	}
	if args, err := d.Args(j); err == nil {
		if text, err := job.MarshalArgs(d.Job(args).Args); err == nil {
			return text
		}
	}
	return shown
}

// String returns the description in one line: WelcomeEmail [42,"short"] with Queue mail.
func (w wanted) String() string {
	text := w.class
	if len(w.args) == 1 {
		text += " " + w.args[0]
	}
	for i, check := range w.checks {
		text += []string{" with ", ", "}[min(i, 1)] + check.name + " " + check.want
	}
	return text
}

// match returns the waiting jobs that match, and a description of the others.
func (k *Kit) match(w wanted) (found []Waiting, others string) {
	lines := ""
	for _, waiting := range k.Waiting() {
		why := w.objection(waiting)
		if why == "" {
			found = append(found, waiting)
			continue
		}
		lines += "\n\t" + waiting.String() + why
	}
	if lines == "" && len(found) == 0 {
		return nil, "\nno job is waiting" + k.haveRun(w.class)
	}
	return found, lines
}

// haveRun lists the runs of the class: a missing job may already have run.
func (k *Kit) haveRun(class string) (lines string) {
	for _, run := range k.Runs() {
		if run.Job.Class() == class {
			lines += "\n\talready run: " + run.String()
		}
	}
	return lines
}

// objection returns the reason why a job does not match; "" if it does.
func (w wanted) objection(waiting Waiting) (why string) {
	switch {
	case waiting.Job.Class() != w.class:
		return ": different class"
	case waiting.Retry:
		return ": waits for a retry"
	case len(w.args) > 0 && !slices.Contains(w.args, w.plain(waiting.Job)):
		if args := w.plain(waiting.Job); args != waiting.Job.ArgsJSON() {
			return ": different arguments " + args
		}
		return ": different arguments"
	}
	for _, check := range w.checks {
		if has := check.has(waiting); has != check.want {
			return fmt.Sprintf(": %s is %s, want %s", check.name, has, check.want)
		}
	}
	return ""
}

func listed(jobs []Waiting) (lines string) {
	for _, waiting := range jobs {
		lines += "\n\t" + waiting.String()
	}
	return lines
}
