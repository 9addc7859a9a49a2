package web

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/inspect"
)

// An Act is a user's request, as Config.Authorize and the audit log get it. Its text is untrusted.
type Act struct {
	// Name is retry, kill, delete, cancel, move, reschedule, pause, resume, run or remove (of a periodic job),
	// seal, invalidate or remove (of a batch), set, reset or remove (of a limit), repair (of the counts of a
	// gate), pause, resume, limit or drop (of a class), quiet, stop, dump, release (of a lock) or reset (of the
	// counters).
	Name string
	// In is where the jobs are: retries, scheduled, dead, queue, quarantined or waiting.
	In string
	// Queue is the queue of the jobs, or the one that is paused or resumed. To is the target of a move.
	Queue, To string
	// At is when rescheduled jobs run.
	At time.Time
	// Class is the class that is paused, resumed, limited or dropped, if In is empty.
	// All means all jobs in that place, or those that match Class, ErrorClass, Tag and Text, and in a set
	// Queue. Otherwise IDs has the inspect.Entry.ID or the Ref of each job.
	All                          bool
	Class, ErrorClass, Tag, Text string
	IDs                          []string
	// Process is the identity of the process that gets a signal; empty with All for every process.
	Process string
	// Lock is the digest of a lock.
	Lock string
	// Periodic is the name of the periodic job that is paused, resumed, run or removed.
	Periodic string
	// Batch is the id of the batch that is sealed, invalidated or removed.
	Batch string
	// Limit is the name of the limit that is set, reset or removed. Concurrency and Rate are the new ones, as
	// inspect.LimitChange has them; Concurrency is also that of a class that is limited.
	Limit, Concurrency, Rate string
	// Shard is the shard that the act is about; empty without shards.
	Shard string
	// Gate is the gate at which the jobs wait, or whose counts are repaired.
	Gate string
}

// actIn returns an act on jobs in a place. name is that of their queue or gate; empty in a set.
func actIn(in, name string) Act {
	if in == string(inspect.PlaceWaiting) {
		return Act{In: in, Gate: name}
	}
	return Act{In: in, Queue: name}
}

// homeName returns the name of the queue or the gate of an act's jobs, as forms have it.
func homeName(act Act) string { return cmp.Or(act.Gate, act.Queue) }

// filter returns what chooses the jobs of an act on all that match.
func (a Act) filter() inspect.Filter {
	f := inspect.Filter{Class: a.Class, ErrorClass: a.ErrorClass, Tag: a.Tag, Text: a.Text}
	if !a.inList() {
		f.Queue = a.Queue
	}
	return f
}

// inQueue reports whether the jobs lie in a queue or its quarantine, and not in a set.
func (a Act) inQueue() bool {
	return a.In == string(inspect.PlaceQueue) || a.In == string(inspect.PlaceQuarantined)
}

// inList reports whether the jobs lie in a list with a name of its own, and not in a set.
func (a Act) inList() bool { return a.inQueue() || a.In == string(inspect.PlaceWaiting) }

// mayAct reports whether pages show buttons.
func (d *Dashboard) mayAct(v *visit) bool { return !d.cfg.ReadOnly && !v.user.viewer }

func (d *Dashboard) userName(v *visit) string {
	if d.cfg.User != nil {
		return d.cfg.User(v.r)
	}
	return v.user.name
}

// permit decides whether an act may be done, and must be called before each.
func (d *Dashboard) permit(v *visit, act Act) error {
	act.Shard = d.name
	var err error
	switch {
	case d.cfg.ReadOnly:
		err = fail(http.StatusForbidden, "This dashboard is read-only.")
	case v.user.viewer:
		err = fail(http.StatusForbidden, "%s may view pages, but not act.", v.user.name)
	case d.cfg.Authorize != nil:
		if denied := d.cfg.Authorize(v.r, act); denied != nil {
			err = fail(http.StatusForbidden, "Not permitted: %s", denied)
		}
	}
	if err != nil {
		d.cfg.Logger.Warn("dashboard act refused", append(d.auditOf(v, act), "error", err)...)
	}
	return err
}

// perform does an act if it is permitted, logs it, and shows its answer on a page. do returns the answer, and
// fields for the audit log.
func (d *Dashboard) perform(v *visit, act Act, page string, do func() (answer flash, result []any, err error)) error {
	if err := d.permit(v, act); err != nil {
		return err
	}
	answer, result, err := do()
	d.audit(v, act, err, result...)
	if refused, is := errors.AsType[refusal](err); is {
		answer, page = flash{Text: refused.text, Bad: true}, refused.page
	} else if err != nil {
		return err
	}
	d.flash(v, answer)
	v.redirect(page)
	return nil
}

// A refusal is the error of an act that was impossible. page shows its text, as it shows answers.
type refusal struct{ text, page string }

func (r refusal) Error() string { return r.text }

// audit logs an act and its result.
func (d *Dashboard) audit(v *visit, act Act, err error, result ...any) {
	fields := append(d.auditOf(v, act), result...)
	if err != nil {
		fields = append(fields, "error", err)
	}
	d.cfg.Logger.Info("dashboard act", fields...)
	d.stale()
}

// maxAudited bounds the IDs of one line of the audit log.
const maxAudited = 20

func (d *Dashboard) auditOf(v *visit, act Act) []any {
	fields := []any{"user", plain(d.userName(v)), "remote", v.r.RemoteAddr, "act", act.Name}
	for _, pair := range [][2]string{
		{"shard", d.name}, {"in", act.In}, {"queue", act.Queue}, {"to", act.To}, {"class", act.Class}, {"error_class", act.ErrorClass}, {"tag", act.Tag}, {"text", act.Text}, {"process", act.Process}, {"lock", act.Lock},
		{"periodic", act.Periodic}, {"batch", act.Batch}, {"limit", act.Limit}, {"concurrency", act.Concurrency}, {"rate", act.Rate}, {"gate", act.Gate},
	} {
		if pair[1] != "" {
			fields = append(fields, pair[0], plain(pair[1]))
		}
	}
	if !act.At.IsZero() {
		fields = append(fields, "at", act.At.UTC().Format(time.RFC3339))
	}
	if act.All {
		fields = append(fields, "all", true)
	}
	if n := len(act.IDs); n > 0 {
		fields = append(fields, "jobs", n, "ids", plain(strings.Join(act.IDs[:min(n, maxAudited)], " ")))
	}
	return fields
}

// A flash is the answer of an act, which the next page shows once. A signed cookie carries it there: a link
// from elsewhere cannot make a page claim something.
type flash struct {
	Text     string   `json:"text"`
	Problems []string `json:"problems,omitempty"`
	Bad      bool     `json:"bad,omitempty"`
}

const flashCookie = "belay_flash"

// maxFlash bounds a flash: browsers take cookies of four kilobytes.
const maxFlash = 2 << 10

func (d *Dashboard) flash(v *visit, f flash) {
	f.Text = cut(300, f.Text)
	for n := range f.Problems {
		f.Problems[n] = cut(200, f.Problems[n])
	}
	text, err := json.Marshal(f)
	for err == nil && len(text) > maxFlash && len(f.Problems) > 0 {
		f.Problems = f.Problems[:len(f.Problems)-1]
		text, err = json.Marshal(f)
	}
	if err != nil || len(text) > maxFlash {
		return
	}
	http.SetCookie(v.w, &http.Cookie{
		Name: flashCookie, Value: base64.RawURLEncoding.EncodeToString(append(d.sign(text), text...)),
		MaxAge: 60, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: v.r.TLS != nil,
	})
}

func (d *Dashboard) sign(text []byte) []byte {
	mac := hmac.New(sha256.New, d.secret[:])
	_, _ = mac.Write(text)
	return mac.Sum(nil)
}

// takeFlash returns the flash of a request and removes it from the browser.
func (d *Dashboard) takeFlash(v *visit) *flash {
	cookie, err := v.r.Cookie(flashCookie)
	if err != nil || v.r.Header.Get("X-Belay-Refresh") != "" { // the script's refresh must not take it from the page
		return nil
	}
	http.SetCookie(v.w, &http.Cookie{Name: flashCookie, MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	raw, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(raw) < sha256.Size || !hmac.Equal(raw[:sha256.Size], d.sign(raw[sha256.Size:])) {
		return nil
	}
	f := &flash{}
	if json.Unmarshal(raw[sha256.Size:], f) != nil {
		return nil
	}
	return f
}

// homeOf returns the home that a form names.
func homeOf(in, queue string) (inspect.Home, error) {
	home, ok := inspect.HomeOf(in, queue)
	if !ok {
		return home, fail(http.StatusBadRequest, "There is no set %q, or the form names no queue.", plain(cut(40, in)))
	}
	return home, nil
}

// verbOf returns an action as the first word of a label.
func verbOf(action inspect.Action) string { return capital(string(action)) }

// effectOf says what an act does to jobs beyond its name: in questions, and as the hint of a button.
func effectOf(act any) string {
	switch fmt.Sprint(act) {
	case string(inspect.Retry):
		return "Retried jobs go to the backs of their queues, and their count of crashes is cleared. A unique job stays if another " +
			"job holds its lock."
	case string(inspect.Reschedule):
		return "Rescheduled jobs wait until then instead; a job that is due later stays as it is."
	case string(inspect.Kill):
		return "Killed jobs go to the dead set, and run only if they are retried from there. Their locks are released."
	case string(inspect.Delete):
		return "Deleted jobs are gone for good. Their locks are released."
	case "cancel":
		return "Cancelled jobs that wait are removed. A job that runs is stopped, and not retried."
	}
	return ""
}

// doneOf returns what an action did, as the first word of a sentence.
func doneOf(action inspect.Action) string { return capital(action.Past()) }

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

func describe(action inspect.Action, t inspect.ActCounts) flash {
	f := flash{Text: fmt.Sprintf("%s: %s.", doneOf(action), plural(t.Moved, "job", "jobs")), Problems: slices.Clone(t.Problems)}
	if gone := max(t.Gone, len(t.Missing)); gone > 0 {
		f.Text += fmt.Sprintf(" %s had left already.", plural(gone, "job", "jobs"))
	}
	if t.Refused > 0 {
		f.Text += fmt.Sprintf(" %s cannot be moved and stayed.", plural(t.Refused, "job", "jobs"))
		f.Bad = true
	}
	return f
}
