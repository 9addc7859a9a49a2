package seal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/belayq/belay/job"
)

// Field is the field of Sidekiq Enterprise that says that the last argument is encrypted.
const Field = "encrypt"

// coding has one spelling of a text, so that no change of a sealed argument goes unnoticed.
var coding = base64.RawURLEncoding.Strict()

const (
	prefix = "belay:enc:1:"
	last   = "last:"
	all    = "all:"
)

// A Rule says which arguments of a job are sealed, and with which keys.
type Rule struct {
	Keys Keys
	// All seals all arguments, as one text, instead of the last one.
	All bool
}

// Seal returns the arguments of a job of the class as they are stored. ok is false if there is none to seal.
func (r Rule) Seal(class, argsJSON string) (sealed string, ok bool, err error) {
	keys, err := r.Keys.ring()
	if err != nil {
		return "", false, err
	}
	if r.All {
		return `["` + keys.seal(all, class, argsJSON) + `"]`, true, nil
	}
	args, err := job.SplitArgs(argsJSON)
	if err != nil || len(args) == 0 {
		return argsJSON, false, err
	}
	args[len(args)-1] = `"` + keys.seal(last, class, args[len(args)-1]) + `"`
	return "[" + strings.Join(args, ",") + "]", true, nil
}

func (r *ring) seal(scope, class, plain string) string {
	head := prefix + scope + r.ids[0] + ":"
	text := r.ciphers[r.ids[0]].Seal(nil, nil, []byte(plain), []byte(head+class))
	return head + coding.EncodeToString(text)
}

// Open returns the arguments of a job, each as JSON, as they were before Seal. Those of a job that is not
// sealed are returned as they are: it may have been pushed before its class was encrypted. For a class that is
// not encrypted, keys is the zero Keys. The error is an *Error.
func Open(j *job.Job, keys Keys) ([]string, error) {
	args := j.Args()
	// A job that is not sealed pays for this comparison, and for nothing else.
	if len(args) == 0 || !strings.HasPrefix(args[len(args)-1], `"`+prefix) || !claims(j) {
		return args, nil
	}
	text := args[len(args)-1]
	head, scope, id, ok := read(text)
	if !ok || scope == all && len(args) != 1 {
		return nil, &Error{Err: errors.New("their form is not known: was the job pushed by a newer version?")}
	}
	plain, err := keys.open(id, head+j.Class(), text[len(`"`)+len(head):len(text)-len(`"`)])
	if err != nil {
		return nil, &Error{KeyID: id, Err: err}
	}
	if scope == last {
		plain = "[" + plain + "]"
	}
	opened, err := job.SplitArgs(plain)
	if err != nil || scope == last && len(opened) != 1 {
		return nil, &Error{KeyID: id, Err: errors.New("the plain text is not JSON")} // another program has sealed it
	}
	return append(args[:len(args)-1], opened...), nil
}

// open decrypts a text.
func (k Keys) open(id, data, text string) (string, error) {
	if k.Empty() {
		return "", errors.New("the class has no keys in this program: define it with the option Encrypted")
	}
	keys, err := k.ring()
	if err != nil {
		return "", err
	}
	opens, err := keys.cipher(id)
	if err != nil {
		return "", err
	}
	sealed, err := coding.DecodeString(text)
	if err == nil {
		sealed, err = opens.Open(sealed[:0], nil, sealed, []byte(data))
	}
	if err != nil {
		return "", errors.New("the text does not open: another key has this ID here, the text was changed, or it is of another class")
	}
	return string(sealed), nil
}

// claims reports whether the payload calls its last argument encrypted.
func claims(j *job.Job) bool {
	encrypt, found := j.RareField(Field)
	return found && encrypt != "false" && encrypt != "null"
}

// read reads a sealed argument, as JSON, up to its text.
func read(arg string) (head, scope, id string, ok bool) {
	rest, ok := strings.CutPrefix(arg, `"`+prefix)
	if !ok {
		return "", "", "", false
	}
	for _, scope = range []string{last, all} {
		if after, is := strings.CutPrefix(rest, scope); is {
			id, _, ok = strings.Cut(after, ":")
			return prefix + scope + id + ":", scope, id, ok && keyID.MatchString(id)
		}
	}
	return "", "", "", false
}

// An Error is the reason why the arguments of a job cannot be decrypted. It shows nothing of them. The job is
// retried like any other failed job, so it runs once its worker has the key.
type Error struct {
	// KeyID is the ID of the key that they need; empty if it is not known.
	KeyID string
	Err   error
}

func (e *Error) Error() string {
	if e.KeyID == "" {
		return fmt.Sprintf("the arguments cannot be decrypted: %v", e.Err)
	}
	return fmt.Sprintf("the arguments cannot be decrypted with the key %s: %v", e.KeyID, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ErrorClass returns the name that operators see, which is the public name of this type.
func (e *Error) ErrorClass() string { return "belay.DecryptError" }

// Shown returns the arguments of a job as JSON for people. An argument that the payload calls encrypted, also
// one that Sidekiq Enterprise encrypted, is the text "[encrypted, key ID]", or "[encrypted]" if the ID of its
// key is not known.
func Shown(j *job.Job) string {
	if !claims(j) {
		return j.ArgsJSON()
	}
	args := j.Args()
	if len(args) == 0 {
		return j.ArgsJSON()
	}
	text := `"[encrypted]"`
	if _, _, id, ok := read(args[len(args)-1]); ok {
		text = `"[encrypted, key ` + id + `]"`
	}
	args[len(args)-1] = text
	return "[" + strings.Join(args, ",") + "]"
}
