package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/job/seal"
	"github.com/belayq/belay/lua"
)

// A draft is a RawJob that was checked, as its payload is written. It lacks the timestamps.
type draft struct {
	job.Draft
	lock dedup.Lock // by Unique
	key  dedup.Lock // by Key
	wal  dedup.WAL
	next []draft
	// length is how many jobs follow one another in the payload, this one included.
	length int
}

// draft checks the job and sets d. ExpiresIn and Deadline count from begin. The error names everything that is
// wrong.
func (j *RawJob) draft(w *writer, begin time.Time, d *draft) error {
	args, badArgs := j.args(w)
	retry, badRetry := retryJSON(j.Retry)
	fields, badFields := j.fields(begin)
	wal, badWAL := j.wal()
	next, length, badNext := j.next(w)
	err := errors.Join(errors.Join(j.problems...), job.CheckClass(j.Class), job.CheckQueue(j.Queue), checkJID(j.JID),
		badArgs, badRetry, badFields, badWAL, badNext, j.checkTime(), checkDurability(j.Replicas, j.ReplicaTimeout))
	d.Class, d.Queue, d.JID, d.ArgsJSON, d.Retry, d.Extra = j.Class, j.Queue, j.JID, args, retry, fields
	d.wal, d.next, d.length = wal, next, length
	if err != nil {
		return err
	}
	if d.key, err = j.keyLock(d.JID); err != nil {
		return err
	}
	if d.lock, err = j.lock(d.Draft); !d.lock.None() && !d.lock.Kept() {
		d.Extra = append(append(w.fields[:0], d.Extra...), d.lock.Edit()) // of the drafts in a payload, one has a lock
		w.fields = d.Extra
	}
	if err == nil && j.Encrypt != nil {
		err = d.seal(j.Encrypt)
	}
	return err
}

// checkTime compares seconds since 1970, because time.Time overflows: Before, After and Sub treat
// time.Unix(math.MaxInt64, 0) as an instant in the past.
func (j *RawJob) checkTime() error {
	switch {
	case j.In != 0 && !j.At.IsZero():
		return errors.New("both In and At are set; set one")
	case j.In < -farthest:
		return fmt.Errorf("its delay is %v: did the calculation overflow?", j.In)
	case j.At.IsZero() && j.In <= farthest:
		return nil
	case j.In > farthest || j.At.Unix() > time.Now().Add(farthest).Unix():
		return errors.New("it is scheduled for more than a hundred years ahead; was a unit mistaken?")
	case j.At.Unix() < 0:
		return errors.New("it is scheduled for before 1970: was the time never set? Leave it out to run the job now")
	}
	return nil
}

// farthest is how far ahead a job may be scheduled. A longer delay is probably a mistaken unit.
const farthest = 100 * 365 * 24 * time.Hour

// seal encrypts the arguments, after they have been compared with those of other jobs.
func (d *draft) seal(rule *seal.Rule) error {
	sealed, ok, err := rule.Seal(d.Class, d.ArgsJSON)
	if err != nil {
		return fmt.Errorf("encrypt the arguments: %w", err)
	}
	if ok {
		d.ArgsJSON, d.Extra = sealed, append(d.Extra, job.Edit{Name: seal.Field, JSON: "true"})
	}
	return nil
}

// keyLock returns the lock of the job by its Key.
func (j *RawJob) keyLock(jid string) (dedup.Lock, error) {
	switch {
	case j.Key == "":
		return dedup.Lock{}, nil
	case j.Unique != nil && j.Unique.MarkDuplicates:
		return dedup.Lock{}, errors.New("a Key refuses duplicates, and MarkDuplicates stores them: give one of them; " +
			"NotUnique ends the Unique of the class")
	}
	return dedup.KeyLock(j.Key, cmp.Or(j.KeyFor, dedup.DefaultKeyFor), jid)
}

// lock returns the lock of the job by Unique.
func (j *RawJob) lock(d job.Draft) (dedup.Lock, error) {
	if j.Unique == nil {
		return dedup.Lock{}, nil
	}
	lock, err := j.Unique.Lock(d)
	if err == nil && j.Encrypt != nil {
		// The digest of the arguments is in the payload and in the lock's key. Of few possible arguments, such
		// as all phone numbers, it would tell which they are.
		lock.Digest, err = j.Encrypt.Keys.Digest(lock.Digest)
	}
	return lock, err
}

// fields returns the fields that not every job has, first those of the job's options, then those of Extra, and
// what is wrong with them.
func (j *RawJob) fields(begin time.Time) (fields []job.Edit, err error) {
	var errs []error
	add := func(field job.Edit, problem error) {
		errs = append(errs, problem, j.checkField(field))
		if slices.ContainsFunc(fields, func(earlier job.Edit) bool { return earlier.Name == field.Name }) {
			errs = append(errs, fmt.Errorf("the field %q is set twice", field.Name))
		}
		fields = append(fields, field)
	}
	if j.RetryQueue != "" {
		add(job.SetString("retry_queue", j.RetryQueue), job.CheckQueue(j.RetryQueue))
	}
	if j.RetryFor != 0 {
		add(job.SetInt("retry_for", int(j.RetryFor/time.Second)), checkRetryFor(j.RetryFor))
	}
	switch {
	case j.Backtrace > 0:
		add(job.SetInt("backtrace", j.Backtrace), nil)
	case j.Backtrace == AllLines:
		add(job.Edit{Name: "backtrace", JSON: "true"}, nil)
	case j.Backtrace < 0:
		errs = append(errs, fmt.Errorf("a backtrace of %d lines: it must be 0 or more, or -1 for all", j.Backtrace))
	}
	if j.NoDead {
		add(job.Edit{Name: "dead", JSON: "false"}, nil)
	}
	if len(j.WAL) > 0 {
		add(j.WAL.Edit(dedup.FieldWAL), nil)
	}
	if j.Timeout != 0 {
		add(job.SetInt(job.FieldTimeout, int(j.Timeout/time.Millisecond)), checkTimeout(j.Timeout))
	}
	if j.ExpiresIn != 0 {
		seconds := strconv.FormatFloat(j.ExpiresIn.Seconds(), 'f', -1, 64)
		add(job.Edit{Name: job.FieldExpiresIn, JSON: seconds}, checkLimit("expires in", j.ExpiresIn))
		add(job.SetStamp(job.FieldExpiry, begin.Add(j.ExpiresIn), job.Seconds), nil)
	}
	if j.Deadline != 0 {
		add(job.SetInt(job.FieldDeadline, int(begin.Add(j.Deadline).UnixMilli())), checkLimit("deadline", j.Deadline))
	}
	if j.Track != 0 {
		add(job.SetInt(job.FieldTrack, int(j.Track/time.Millisecond)), checkLimit("track", j.Track))
	}
	switch {
	case j.Batch == nil:
	case j.Batch.space == nil:
		errs = append(errs, errEmptyBatch)
	default:
		fields = append(fields, job.SetString(job.FieldBatch, j.Batch.name.String()))
	}
	if j.after != "" {
		fields = append(fields, job.SetString(job.FieldAfter, j.after))
	}
	if j.endOf != nil {
		fields = append(fields, job.SetString(job.FieldBatchEnded, j.endOf.name.String()))
	}
	if len(j.Meta) > 0 {
		meta, err := job.MetaFields(j.Meta)
		if err != nil {
			return fields, errors.Join(append(errs, fmt.Errorf("meta: %w", err))...)
		}
		for _, field := range meta {
			add(field, nil)
		}
	}
	if len(j.Tags) > 0 {
		text, err := job.Marshal(j.Tags)
		if err != nil {
			return fields, errors.Join(append(errs, fmt.Errorf("tags: %w", err))...)
		}
		add(job.Edit{Name: "tags", JSON: text}, nil)
	}
	for _, field := range j.Extra {
		// On one line, or a form in a browser would change it. What is no JSON stays, and checkField names it.
		if text, err := job.Marshal(json.RawMessage(field.JSON)); err == nil {
			field.JSON = text
		}
		add(field, nil)
	}
	return fields, errors.Join(errs...)
}

// wal returns WAL, or the equivalent field in Extra, which jobs from the lines of a file have.
func (j *RawJob) wal() (dedup.WAL, error) {
	at := slices.IndexFunc(j.Extra, func(field job.Edit) bool { return field.Name == dedup.FieldWAL })
	if at < 0 {
		return j.WAL, j.WAL.Check()
	}
	var texts map[string]string
	if compact := strings.Join(strings.Fields(j.Extra[at].JSON), ""); compact == "[]" { // Ruby's none, as in dedup.ReadWAL
		return nil, nil
	}
	if err := json.Unmarshal([]byte(j.Extra[at].JSON), &texts); err != nil {
		return nil, fmt.Errorf("the field %q must be an object with a position for each connection, such as {\"main\":\"16/B374D848\"}",
			dedup.FieldWAL)
	}
	return dedup.ParseWAL(texts)
}

func (j *RawJob) args(w *writer) (string, error) {
	if j.ArgsJSON == "" {
		text, err := job.AppendArgs(w.scratch[:0], j.Args)
		if err != nil {
			return "", err
		}
		w.scratch = text
		return w.kept(text), nil
	}
	if len(j.Args) > 0 {
		return "", errors.New("both Args and ArgsJSON are set; set one")
	}
	args, err := job.SpellArgs(j.ArgsJSON)
	if err != nil {
		return "", fmt.Errorf("args: %w", err)
	}
	return args, nil
}

func retryJSON(rule job.RetryRule) (string, error) {
	switch {
	case rule.Kind == job.RetryDefault:
		return "true", nil
	case rule.Kind == job.RetryNever:
		return "false", nil
	case rule.Kind == job.RetryLimit && rule.Limit >= 0:
		return strconv.Itoa(rule.Limit), nil
	default:
		return "", fmt.Errorf("%d retries: it must be 0 or more", rule.Limit)
	}
}

// checkField is job.CheckExtra for a client's jobs. It refuses the field of a lock, because a job that did not
// take that lock would release the lock of another job. Only the push may set the mark of a duplicate; in a job
// that is not unique the mark is an ordinary field.
func (j *RawJob) checkField(field job.Edit) error {
	if field.Name == dedup.DuplicateOf && j.Unique != nil {
		return fmt.Errorf("the field %q cannot be set like this in a job that is unique: the push sets it", field.Name)
	}
	if field.Name == seal.Field && j.Encrypt != nil {
		return fmt.Errorf("the field %q cannot be set like this in a job that is encrypted: the push sets it", field.Name)
	}
	if field.Name == dedup.FieldName {
		return fmt.Errorf("the field %q cannot be set like this; use Unique", field.Name)
	}
	if field.Name == job.FieldBatch || field.Name == job.FieldBatchEnded {
		return fmt.Errorf("the field %q cannot be set like this; use InBatch, or the Batch of a RawJob", field.Name)
	}
	if field.Name == job.FieldThen || field.Name == job.FieldAfter {
		return fmt.Errorf("the field %q cannot be set like this; use Then", field.Name)
	}
	return job.CheckExtra(field)
}

func checkRetryFor(d time.Duration) error {
	if d < 0 || d%time.Second != 0 {
		return fmt.Errorf("retry for %v: it must be a whole number of seconds", d)
	}
	return nil
}

func checkTimeout(d time.Duration) error {
	if d < time.Millisecond {
		return fmt.Errorf("timeout %v: it must be at least 1ms; leave it out for none", d)
	}
	return nil
}

func checkLimit(name string, limit time.Duration) error {
	if limit < time.Millisecond || limit > farthest {
		return fmt.Errorf("%s %v: it must be at least 1ms, and at most a hundred years", name, limit)
	}
	return nil
}

// maxJID bounds the ids that callers set, because every log line has them.
const maxJID = 255

// checkJID refuses ids that Ruby's tools cannot find again: the tools match ids by glob, and put them into
// URLs.
func checkJID(jid string) error {
	if len(jid) > maxJID {
		return fmt.Errorf("the jid is %d bytes long; at most %d are allowed", len(jid), maxJID)
	}
	for _, r := range jid {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' { // first, because ids that the client generates have no others
			continue
		}
		if r <= ' ' || r > '~' || r == '*' || r == '?' || r == '[' || r == ']' || r == '\\' || r == '/' || r == '"' {
			return fmt.Errorf("the jid %q holds %q; use letters, digits, dashes and dots", jid, r)
		}
	}
	return nil
}

// encode writes the payload. The next jobs are its last field before the args: what reads only the beginning of
// a payload must find the fields of the job itself there.
func (d *draft) encode(w *writer) string {
	if len(d.next) == 0 {
		w.scratch = w.Append(w.scratch[:0], &d.Draft)
		return w.kept(w.scratch)
	}
	texts := make([]string, len(d.next))
	for at := range d.next {
		next := &d.next[at]
		next.CreatedAt, next.Unit = d.CreatedAt, d.Unit
		texts[at] = next.encode(w)
	}
	whole := draft{Draft: d.Draft}
	whole.Extra = append(slices.Clip(whole.Extra), job.Edit{Name: job.FieldThen, JSON: "[" + strings.Join(texts, ",") + "]"})
	return whole.encode(w)
}

// A writer writes the payloads of the jobs of one push. What they have in common, and the memory that they need
// for a short time, it makes once for many of them: the jobs of a bulk push cost half as much then. The zero
// writer is ready, for one job.
type writer struct {
	job.Encoder
	bulk bool // many jobs will follow

	scratch []byte          // for the text that is being written
	fields  []job.Edit      // of the job that is being written
	texts   strings.Builder // the texts of kept are parts of its string
	jids    []string        // for the next jobs
	turn    *space          // the shard of the next plain jobs; nil for the next one in turn
	clockOf *space          // whose now is
	readAt  time.Time       // when now was read, by this machine's clock
	now     time.Time       // by Redis' clock
}

// kept returns a string with this text. Those of a bulk push are parts of larger strings, because all of them
// live until their call is over.
func (w *writer) kept(text []byte) string {
	if !w.bulk {
		return string(text)
	}
	const page = 16 << 10 // some hundred payloads, and no more than a slab of Go's allocator may have
	if w.texts.Cap()-w.texts.Len() < len(text) {
		w.texts.Reset()
		w.texts.Grow(max(len(text), page))
	}
	start := w.texts.Len()
	w.texts.Write(text)
	return w.texts.String()[start:]
}

// jid returns the id of a job that has none. A bulk push draws them by the dozen, because asking for randomness
// costs more than a few bytes of it. They are drawn for less than a slice: one that the caller keeps, keeps the
// text of all of them.
func (w *writer) jid() string {
	if !w.bulk {
		return job.NewJID()
	}
	if len(w.jids) == 0 {
		w.jids = job.NewJIDs(lua.MaxItems / 4)
	}
	jid := w.jids[0]
	w.jids = w.jids[1:]
	return jid
}
