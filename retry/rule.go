package retry

import (
	"errors"
	"reflect"
	"slices"
)

// An ErrorRule decides what happens to a job whose run ends with one of these errors, as if its handler had
// returned Discard, Kill or Snooze with the error as its cause. A snoozed job waits as long as for a retry.
type ErrorRule struct {
	// Ask is AskDiscard, AskKill or AskSnooze.
	Ask Ask
	// Errors are the errors that the rule is for. Errors are compared as errors.Is does. A nil pointer, such as
	// (*fs.PathError)(nil), stands for all errors of its type, and of the type that it points to.
	Errors []error
}

// Check returns an error for a rule that can match nothing.
func (r ErrorRule) Check() error {
	var errs []error
	if r.Ask != AskDiscard && r.Ask != AskKill && r.Ask != AskSnooze {
		errs = append(errs, errors.New("it must discard, kill or snooze"))
	}
	if len(r.Errors) == 0 {
		errs = append(errs, errors.New("it names no error"))
	}
	if slices.Contains(r.Errors, nil) {
		errs = append(errs, errors.New("one of its errors is nil; a type is written as a nil pointer of it, (*MyError)(nil)"))
	}
	return errors.Join(errs...)
}

// A rule matches an error that is wrapped any number of times, but none beneath a panic: the run counts as
// failed whatever the handler panicked with. A rule for (*PanicError)(nil) matches every panic.
func (r ErrorRule) matches(links []error) bool {
	return slices.ContainsFunc(r.Errors, func(target error) bool {
		sample := typeOf(target)
		return slices.ContainsFunc(links, func(link error) bool {
			if sample == nil {
				return linkIs(link, target)
			}
			own := reflect.TypeOf(link)
			return own == sample || own == sample.Elem()
		})
	})
}

// typeOf returns the type that a target stands for; nil if the target stands for itself.
func typeOf(target error) reflect.Type {
	if value := reflect.ValueOf(target); value.Kind() == reflect.Pointer && value.IsNil() {
		return value.Type()
	}
	return nil
}

// askOfRules returns what the first rule that matches the error asks for; the zero AskError if none does.
func askOfRules(err error, lists ...[]ErrorRule) AskError {
	var links []error // read when there is a rule: most classes have none
	for _, rules := range lists {
		for _, rule := range rules {
			if links == nil {
				links = aboveThePanic(chain(err))
			}
			if rule.matches(links) {
				return AskError{Ask: rule.Ask, Cause: err}
			}
		}
	}
	return AskError{}
}

// aboveThePanic returns the links up to the first panic.
func aboveThePanic(links []error) []error {
	at := slices.IndexFunc(links, func(link error) bool {
		_, panicked := link.(*PanicError) //nolint:errorlint // each link of the chain is visited by itself
		return panicked
	})
	if at < 0 {
		return links
	}
	return links[:at+1]
}
