package driver

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ParseURL normalizes a Redis URL for an adapter, whose client library then parses it. It makes all adapters
// accept and refuse the same URLs:
//
//	redis://[user:password@]host[:port][/db]    rediss:// with TLS; valkey:// and valkeys:// mean the same two
//	unix://[user:password@]/path[?db=N]
//
// Every adapter accepts the parameters db (which overrides the path), dial_timeout (a duration, or whole
// seconds), client_name, and with TLS skip_verify=true. Parameters in own are passed on for the client library
// to judge. Parameters of go-redis for retries, timeouts, pools and the protocol are otherwise accepted and
// removed, because the adapters set these.
//
// The returned URL has the scheme redis, rediss or unix, and the database in its path, or for a socket in the
// parameter db. No error repeats any of the text, which may hold a password in any place.
func ParseURL(text string, own ...string) (*url.URL, error) {
	parsed, err := structure(text)
	if err != nil {
		return nil, err
	}
	query, err := parameters(parsed, own)
	if err != nil {
		return nil, err
	}
	db, err := database(parsed, query)
	if err != nil {
		return nil, err
	}
	query.Del("db")
	switch {
	case parsed.Scheme != "unix":
		parsed.Path, parsed.RawPath = "/"+strconv.Itoa(db), ""
	case db != 0:
		query.Set("db", strconv.Itoa(db))
	}
	parsed.RawQuery, parsed.ForceQuery = query.Encode(), false
	return parsed, nil
}

// ServerURL returns the URL of a server for display: its address and database, without user, password or
// parameters.
func ServerURL(network, addr string, db int, withTLS bool) string {
	shown := url.URL{Scheme: "redis", Host: addr, Path: "/" + strconv.Itoa(db)}
	switch {
	case network == "unix":
		shown = url.URL{Scheme: "unix", Path: addr}
		if db != 0 {
			shown.RawQuery = "db=" + strconv.Itoa(db)
		}
	case withTLS:
		shown.Scheme = "rediss"
	}
	return shown.String()
}

// CheckURL reports what is wrong with a Redis URL, except its database and parameters. A program that shows
// URLs without their passwords must not show one that CheckURL refuses: a part of the password may be anywhere
// in it.
func CheckURL(text string) error {
	_, err := structure(text)
	return err
}

// structure parses the scheme, the user and the address.
func structure(text string) (*url.URL, error) {
	if text == "" {
		return nil, errors.New("the Redis URL is empty: give one such as redis://localhost:6379/0")
	}
	if passwordInHost(text) {
		return nil, errors.New("the Redis URL has a # or an @ in the wrong place: percent-encode special characters in the password (%23, %40)")
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme == "" {
		return nil, errors.New("the Redis URL cannot be parsed: it should look like redis://host:port/db, or " +
			"redis://user:password@host:port/db with special characters percent-encoded")
	}
	switch parsed.Scheme {
	case "valkey":
		parsed.Scheme = "redis"
	case "valkeys":
		parsed.Scheme = "rediss"
	case "redis", "rediss", "unix":
	default:
		return nil, errors.New("the Redis URL has a scheme that is not redis, rediss or unix: it should look like redis://host:port/db")
	}
	if parsed.Scheme == "unix" {
		if parsed.Host != "" || parsed.Opaque != "" || strings.Trim(parsed.Path, " /") == "" {
			return nil, errors.New("the Redis URL names no socket: it should look like unix:///path/to/redis.sock")
		}
		return parsed, nil
	}
	// Without the slashes it has no host, and URL parsers return the default host.
	if _, rest, _ := strings.Cut(text, ":"); !strings.HasPrefix(rest, "//") {
		return nil, errors.New("the Redis URL lacks the // after its scheme: it should look like redis://host:port/db")
	}
	return parsed, nil
}

// passwordInHost reports whether a part of a password may be in the place of the host. URL parsers end the host
// at a bare #, ? or /, so an error that names the host would show the beginning of such a password.
func passwordInHost(text string) bool {
	if strings.HasPrefix(text, "unix:") {
		return false
	}
	_, rest, _ := strings.Cut(text, "://")
	if strings.Contains(rest, "#") {
		return true
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		return false
	}
	before, _, at := strings.Cut(rest[end:], "@")
	return at && !(before[0] == '?' && strings.Contains(before, "=")) // a parameter's value may have an @
}

// database returns the number of the database, 0 by default.
func database(parsed *url.URL, query url.Values) (int, error) {
	text := ""
	if parsed.Scheme != "unix" {
		text = strings.Trim(parsed.Path, "/")
	}
	if query.Has("db") {
		text = query.Get("db")
	} else if text == "" {
		return 0, nil
	}
	db, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, errors.New("the database in the Redis URL must be a number, 0 or more, as in redis://host:port/0")
	}
	return int(db), nil
}

// Parameters in shared mean the same to every adapter. Parameters in overruled are removed for every adapter,
// because the promises of Client depend on these settings.
var (
	shared    = []string{"db", "dial_timeout", "client_name", "skip_verify"}
	overruled = []string{"max_retries", "protocol", "read_timeout", "write_timeout"}
)

// PoolParameters are go-redis' parameters for its pool and retries. Its adapter passes them on; others remove
// them, so that one URL works with all.
var PoolParameters = []string{
	"conn_max_idle_time", "conn_max_lifetime", "conn_max_lifetime_jitter", "idle_timeout", "max_active_conns", "max_concurrent_dials",
	"max_conn_age", "max_idle_conns", "max_retry_backoff", "min_idle_conns", "min_retry_backoff", "pipeline_pool_size",
	"pipeline_read_buffer_size", "pipeline_write_buffer_size", "pool_fifo", "pool_size", "pool_timeout",
}

// parameters returns the parameters for the adapter's client library.
func parameters(parsed *url.URL, own []string) (url.Values, error) {
	query, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		return nil, errors.New("the Redis URL has parameters that cannot be parsed: percent-encode their special characters")
	}
	for name, values := range query {
		switch {
		case slices.Contains(own, name): // the client library judges it
		case slices.Contains(overruled, name), slices.Contains(PoolParameters, name):
			query.Del(name)
		case !slices.Contains(shared, name):
			known := slices.Sorted(slices.Values(slices.Concat(shared, own)))
			return nil, fmt.Errorf("the Redis URL has a parameter that is not one of %s; user and password go before the host",
				strings.Join(known, ", "))
		case len(values) > 1: // one library would use the first, another one the last
			return nil, fmt.Errorf("the Redis URL has the parameter %s twice", name)
		}
	}
	if query.Has("dial_timeout") {
		limit, err := duration(query.Get("dial_timeout"))
		if err != nil {
			return nil, errors.New("the dial_timeout of the Redis URL must be a duration, such as 1500ms")
		}
		query.Set("dial_timeout", limit.String())
	}
	if query.Has("skip_verify") {
		skip, err := strconv.ParseBool(query.Get("skip_verify"))
		if err != nil || parsed.Scheme != "rediss" {
			return nil, errors.New("the skip_verify of the Redis URL must be true or false, and needs rediss://")
		}
		query.Set("skip_verify", strconv.FormatBool(skip))
	}
	return query, nil
}

// duration parses a duration as go-redis does in URLs: a bare number is seconds.
func duration(text string) (time.Duration, error) {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	return time.ParseDuration(text) //nolint:wrapcheck // not shown
}
