package belay

import (
	"errors"
	"fmt"

	"github.com/belayq/belay/job/seal"
)

type (
	// Keys are the keys of Encrypted classes, each with an ID. ParseKeys and KeysFromEnv make them. The first
	// one encrypts, each of them decrypts, and printing them shows only the IDs. seal.Keys says how to replace
	// a key.
	Keys = seal.Keys
	// DecryptError is the error of a run whose arguments cannot be decrypted. It names the key that they need,
	// and shows nothing of them. The job is retried, so it runs once its worker has the key.
	DecryptError = seal.Error
)

// ParseKeys reads keys, such as the text of a secret: for each one a word ID:KEY, separated by spaces or lines,
// the one that encrypts first. An ID has at most 32 letters, digits, dots, dashes and underscores. KEY is 32
// random bytes, as 64 hexadecimal digits or in base64; openssl rand -hex 32 makes one. The error names all
// mistakes, and shows no key.
func ParseKeys(text string) (Keys, error) { return seal.ParseKeys(text) }

// KeysFromEnv returns the keys in an environment variable, as ParseKeys reads them, or in the file that is
// named by the variable of that name with _FILE at its end. They are read when they are first used, so a
// program may import a class without having its keys. Without them a push of the class fails, and Handle and
// Handler panic.
func KeysFromEnv(name string) Keys { return seal.KeysFromEnv(name) }

// Encrypted encrypts the last argument of the class' jobs with AES-256-GCM, from the push until the handler
// gets it: Redis, its snapshots, logs and dashboards have only the encrypted text. With NamedArgs that is all
// of the arguments; so it is with a T that is one argument. Handlers, AroundArgs, OnExhausted and the
// middleware of clients get plain arguments. Job.Args, and so the middleware of servers, has the encrypted
// text.
//
//	var Charge = belay.Define[ChargeArgs]("Charge", belay.NamedArgs(), belay.Idempotent(),
//		belay.Encrypted(belay.KeysFromEnv("APP_KEYS")))
//
// Not encrypted are all other fields, such as the class, Meta, Tags and Key, the errors and results of runs,
// and what Progress and Checkpoint store. Jobs that were pushed before the class was encrypted run as well.
//
// Unique compares the plain arguments, and its lock has a digest that cannot be computed without the keys; see
// seal.Keys for a change of them. So has the gate of a job that is Limited: see Keys.LimitKey. A periodic job
// cannot be encrypted.
func Encrypted(keys Keys) DefineOption { return encrypted(seal.Rule{Keys: keys}) }

// EncryptedAll is Encrypted for all arguments. They become one text, which does not show how many they are.
func EncryptedAll(keys Keys) DefineOption { return encrypted(seal.Rule{Keys: keys, All: true}) }

func encrypted(rule seal.Rule) DefineOption {
	return definitionOption(func(def *definition) {
		switch {
		case rule.Keys.Empty():
			def.problems = append(def.problems, errors.New("the option Encrypted has no keys; check the error of ParseKeys"))
		case def.item.Encrypt != nil:
			def.problems = append(def.problems, errors.New("the option Encrypted is given twice; give it once"))
		}
		def.item.Encrypt = &rule
	})
}

// checkEncryption returns an error if Encrypted would encrypt different arguments of different jobs.
func (d *definition) checkEncryption() error {
	if rule := d.item.Encrypt; rule == nil || d.shape == nil || rule.All || d.shape.EndsAlike() {
		return nil
	}
	return fmt.Errorf("the option Encrypted is for the last argument, and which one of %v that is differs from job to job: use EncryptedAll", d.of)
}
