package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// Credentials return the user and the password of a new connection. The user may be empty: that is Redis' user
// named default.
type Credentials func() (user, password string, err error)

// setSecrets sets the credentials and the TLS of a URL.
func (u *URL) setSecrets(parts *url.URL, query url.Values) error {
	password, given := parts.User.Password()
	if given && query.Has("password_file") {
		return errors.New("the Redis URL has both a password and a password_file")
	}
	if !query.Has("sentinel_password_file") && query.Has("sentinel_user") {
		return errors.New("the Redis URL has a sentinel_user without a sentinel_password_file")
	}
	u.Credentials = credentials(parts.User.Username(), password, "password_file", query)
	u.SentinelCredentials = credentials(query.Get("sentinel_user"), "", "sentinel_password_file", query)
	if strings.HasPrefix(parts.Scheme, "rediss") {
		skip, _ := strconv.ParseBool(query.Get("skip_verify"))
		u.TLS = &TLS{
			CA: query.Get("ca"), Cert: query.Get("cert"), Key: query.Get("key"), ServerName: query.Get("server_name"), SkipVerify: skip,
		}
	}
	return nil
}

// credentials returns those of a user whose password is in the URL, or in the file of a parameter; nil if there
// are none.
func credentials(user, password, parameter string, query url.Values) Credentials {
	file := query.Get(parameter)
	switch {
	case file != "":
		return func() (string, string, error) {
			text, err := secretFile(parameter, file)
			return user, strings.TrimRight(string(text), "\r\n"), err
		}
	case user != "" || password != "":
		return func() (string, string, error) { return user, password, nil }
	}
	return nil
}

// secretFile reads the file of a parameter. Its error does not show the name of the file: by mistake, a secret
// is easily written in its place.
func secretFile(parameter, name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	var failed *fs.PathError
	if errors.As(err, &failed) {
		err = failed.Err
	}
	if err == nil && strings.TrimSpace(string(text)) == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, &AccessError{
			Advice: "write the file that " + parameter + " in the Redis URL names, and let this user read it",
			Err:    fmt.Errorf("read the file of %s: %w", parameter, err),
		}
	}
	return text, nil
}
