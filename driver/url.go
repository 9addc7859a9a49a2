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

// ParseURL reads a Redis URL for an adapter, so that all adapters accept and refuse the same:
//
//	redis://[user:password@]host[:port][/db]    rediss:// with TLS; valkey:// and valkeys:// are the same two
//	unix://[user:password@]/path[?db=N]
//
// Parameters that every adapter knows are db (which goes before the path's), dial_timeout (a duration, or
// whole seconds), client_name, and with TLS skip_verify=true. Those named by own are passed on as they are,
// for the client below to judge. What go-redis' URLs say of retries, timeouts, pools and the protocol is
// accepted and left out otherwise: the adapters decide that.
//
// The URL that it answers says the same in one way: the scheme is redis, rediss or unix, and the database is
// the path, or of a socket the parameter db. No error repeats any of the text, which may hold a password at
// any place.
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

// CheckURL says whether text is a Redis URL, but for its database and parameters. Whoever shows URLs without
// their passwords should not show one that it refuses: a part of the password may stand anywhere in it.
func CheckURL(text string) error {
	_, err := structure(text)
	return err
}

// structure reads the text as far as it is about where Redis is.
func structure(text string) (*url.URL, error) {
	if text == "" {
		return nil, errors.New("the Redis URL is empty: give one such as redis://localhost:6379/0")
	}
	if strayPassword(text) {
		return nil, errors.New("the Redis URL holds a # or an @ where none belongs: percent-encode special characters in the password (%23, %40)")
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme == "" {
		return nil, errors.New("the Redis URL cannot be parsed: it should look like redis://host:port/db, with user:password@" +
			" before the host if it wants them, and their special characters percent-encoded")
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
	// Without the slashes there is no host in it, and URL parsers answer that of this machine.
	if _, rest, _ := strings.Cut(text, ":"); !strings.HasPrefix(rest, "//") {
		return nil, errors.New("the Redis URL lacks the // behind its scheme: it should look like redis://host:port/db")
	}
	return parsed, nil
}

// strayPassword says whether a part of a password may stand where the host is looked for: a password that
// holds a bare #, ? or / ends what URL parsers take for the host, and an error that names the host would then
// name its beginning.
func strayPassword(text string) bool {
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
	return at && !(before[0] == '?' && strings.Contains(before, "=")) // in a parameter's value it is at home
}

// database is the number that the URL names, 0 without one.
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
		return 0, errors.New("the Redis URL has no database number where one belongs: it is 0 or more, as in redis://host:port/0")
	}
	return int(db), nil
}

// shared are the parameters that mean the same to every adapter, and overruled those that mean nothing to
// any, since what they would say is what the promises of Client rest on.
var (
	shared    = []string{"db", "dial_timeout", "client_name", "skip_verify"}
	overruled = []string{"max_retries", "protocol", "read_timeout", "write_timeout"}
)

// PoolParameters are those of go-redis about its pool and retries: its adapter passes them on, and any other
// leaves them out, so that a URL which has them is good for all.
var PoolParameters = []string{
	"conn_max_idle_time", "conn_max_lifetime", "conn_max_lifetime_jitter", "idle_timeout", "max_active_conns", "max_concurrent_dials",
	"max_conn_age", "max_idle_conns", "max_retry_backoff", "min_idle_conns", "min_retry_backoff", "pipeline_pool_size",
	"pipeline_read_buffer_size", "pipeline_write_buffer_size", "pool_fifo", "pool_size", "pool_timeout",
}

// parameters are those of the URL that an adapter's client is to see.
func parameters(parsed *url.URL, own []string) (url.Values, error) {
	query, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		return nil, errors.New("the Redis URL has parameters that cannot be parsed: percent-encode their special characters")
	}
	for name, values := range query {
		switch {
		case slices.Contains(own, name):
		case len(values) > 1 && slices.Contains(shared, name):
			return nil, fmt.Errorf("the Redis URL has the parameter %s twice", name)
		case slices.Contains(overruled, name), slices.Contains(PoolParameters, name):
			query.Del(name)
		case !slices.Contains(shared, name):
			known := slices.Sorted(slices.Values(slices.Concat(shared, own)))
			return nil, fmt.Errorf("the Redis URL has a parameter that is not one of %s; user and password stand before the host",
				strings.Join(known, ", "))
		}
	}
	if query.Has("dial_timeout") {
		limit, err := duration(query.Get("dial_timeout"))
		if err != nil {
			return nil, errors.New("the dial_timeout of the Redis URL is no duration, such as 1500ms")
		}
		query.Set("dial_timeout", limit.String())
	}
	if query.Has("skip_verify") {
		skip, err := strconv.ParseBool(query.Get("skip_verify"))
		if err != nil || parsed.Scheme != "rediss" {
			return nil, errors.New("the skip_verify of the Redis URL is true or false, and for rediss:// alone")
		}
		query.Set("skip_verify", strconv.FormatBool(skip))
	}
	return query, nil
}

// duration reads one as go-redis does in URLs: a bare number is seconds.
func duration(text string) (time.Duration, error) {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	return time.ParseDuration(text) //nolint:wrapcheck // not shown
}
