package main

import (
	"errors"
	"regexp"
	"strings"

	"github.com/belayq/belay/driver"
)

// What the bench says is made to be published: reports, and terminals that are copied into issues. A password
// of --redis must be in none of it.

// hidden stands where a secret was.
const hidden = "xxxxx"

// credentials are what stands before the host of a URL. What looks like it is taken up to the last @: a bare
// one may be part of the password.
var credentials = regexp.MustCompile(`://\S*@`)

// withoutCredentials is a text in which no URL says user or password.
func withoutCredentials(text string) string {
	return credentials.ReplaceAllString(text, "://"+hidden+"@")
}

// hide takes out of a text all that is secret in --redis.
func (o *options) hide(text string) string {
	if o.redis == "" {
		return withoutCredentials(text)
	}
	parsed, err := driver.Structure(o.redis)
	if err != nil { // a part of a password may stand anywhere in it
		return withoutCredentials(strings.ReplaceAll(text, o.redis, hidden))
	}
	text = withoutCredentials(text)
	if parsed.User == nil {
		return text
	}
	// A client in another language may report the failed AUTH with its arguments. What is shorter than this
	// guards nothing, and stands in every figure.
	const shortest = 4
	words := []string{parsed.User.String(), parsed.User.Username()}
	if password, given := parsed.User.Password(); given {
		words = append(words[:1], password) // with a password, the user's name is none
	}
	for _, word := range words {
		if len(word) >= shortest {
			text = strings.ReplaceAll(text, word, hidden)
		}
	}
	return text
}

// hideError takes out of an error's text all that is secret in --redis.
func (o *options) hideError(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(o.hide(err.Error()))
}
