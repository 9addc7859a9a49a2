package driver

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Structure returns the parts of a Redis URL, or what is wrong with them, apart from its database and
// parameters. The Host has all hosts, and the scheme is that of Redis. A program that shows URLs without their
// passwords must not show one that Structure refuses: a part of the password may be anywhere in it.
func Structure(text string) (*url.URL, error) {
	if text == "" {
		return nil, errors.New("the Redis URL is empty: give one such as redis://localhost:6379/0")
	}
	if passwordInHost(text) {
		return nil, errors.New("the Redis URL has a # or an @ in the wrong place: percent-encode special characters in the password (%23, %40)")
	}
	single, hosts := oneHost(text)
	parts, err := url.Parse(single)
	if err != nil || parts.Scheme == "" {
		return nil, errors.New("the Redis URL cannot be parsed: it should look like redis://host:port/db, or " +
			"redis://user:password@host:port/db with special characters percent-encoded")
	}
	if hosts != "" {
		parts.Host = hosts
	}
	scheme, kind, plus := strings.Cut(parts.Scheme, "+")
	switch scheme {
	case "valkey":
		scheme = "redis"
	case "valkeys":
		scheme = "rediss"
	}
	if plus {
		scheme += "+" + kind
	}
	parts.Scheme = scheme
	switch scheme {
	case "redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster":
	case "unix":
		if parts.Host != "" || parts.Opaque != "" || strings.Trim(parts.Path, " /") == "" {
			return nil, errors.New("the Redis URL names no socket: it should look like unix:///path/to/redis.sock")
		}
		return parts, nil
	default:
		return nil, errors.New("the Redis URL has a scheme that is not redis, rediss or unix, nor redis or rediss with +sentinel or +cluster: " +
			"it should look like redis://host:port/db")
	}
	// Without the slashes it has no host, and URL parsers return the default host.
	if _, rest, _ := strings.Cut(text, ":"); !strings.HasPrefix(rest, "//") {
		return nil, errors.New("the Redis URL lacks the // after its scheme: it should look like redis://host:port/db")
	}
	return parts, nil
}

// oneHost returns the URL with only the first of its hosts, because net/url knows one, and all hosts if there
// are several.
func oneHost(text string) (single, hosts string) {
	before, rest, _ := strings.Cut(text, "://")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	start := strings.LastIndex(rest[:end], "@") + 1
	first, _, several := strings.Cut(rest[start:end], ",")
	if !several {
		return text, ""
	}
	return before + "://" + rest[:start] + first + rest[end:], rest[start:end]
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

// Parameters that the adapters read, by where they are allowed.
var (
	everywhere  = []string{"db", "dial_timeout", "client_name", "password_file", "addr", "master_set"}
	withTLS     = []string{"ca", "cert", "key", "server_name", "skip_verify"}
	forSentinel = []string{"sentinel_user", "sentinel_password_file"}
)

// overruled are removed, because the promises of Client depend on these settings. rueidis' client_cache has no
// effect, because there is no cache.
var overruled = []string{"client_cache", "max_retries", "protocol", "read_timeout", "write_timeout"}

// PoolParameters are go-redis' parameters for its pool and retries. Its adapter uses them; others ignore them,
// so that one URL works with all.
var PoolParameters = []string{
	"conn_max_idle_time", "conn_max_lifetime", "conn_max_lifetime_jitter", "idle_timeout", "max_active_conns", "max_concurrent_dials",
	"max_conn_age", "max_idle_conns", "max_retry_backoff", "min_idle_conns", "min_retry_backoff", "pipeline_pool_size",
	"pipeline_read_buffer_size", "pipeline_write_buffer_size", "pool_fifo", "pool_size", "pool_timeout",
}

// parameters returns the parameters of a URL once each of them is known, and has a value that can be read.
func parameters(parts *url.URL) (url.Values, error) {
	query, err := url.ParseQuery(parts.RawQuery)
	if err != nil {
		return nil, errors.New("the Redis URL has parameters that cannot be parsed: percent-encode their special characters")
	}
	known := slices.Concat(everywhere, withTLS, forSentinel)
	sentinels := strings.HasSuffix(parts.Scheme, "+sentinel") || parts.Scheme != "unix" && query.Has("master_set")
	for name, values := range query {
		switch {
		case slices.Contains(overruled, name), slices.Contains(PoolParameters, name):
		case name == shardsParameter:
			return nil, errors.New("the Redis URL has the parameter shards, which leads to several keyspaces: open it with belay.Open")
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("the Redis URL has a parameter that is not one of %s; user and password go before the host",
				strings.Join(slices.Sorted(slices.Values(known)), ", "))
		case len(values) > 1 && name != "addr": // one library would use the first, another one the last
			return nil, fmt.Errorf("the Redis URL has the parameter %s twice", name)
		case values[0] == "" && name != "client_name":
			return nil, fmt.Errorf("the Redis URL has the parameter %s without a value", name)
		case slices.Contains(withTLS, name) && !strings.HasPrefix(parts.Scheme, "rediss"):
			return nil, fmt.Errorf("the %s of the Redis URL needs TLS: rediss:// instead of redis://", name)
		case slices.Contains(forSentinel, name) && !sentinels, name == "addr" && !sentinels, name == "master_set" && parts.Scheme == "unix":
			return nil, fmt.Errorf("the %s of the Redis URL needs sentinels: redis+sentinel://host1,host2,host3/NAME", name)
		}
	}
	if query.Has("dial_timeout") {
		if _, err := duration(query.Get("dial_timeout")); err != nil {
			return nil, errors.New("the dial_timeout of the Redis URL must be a duration, such as 1500ms")
		}
	}
	if query.Has("skip_verify") {
		if _, err := strconv.ParseBool(query.Get("skip_verify")); err != nil {
			return nil, errors.New("the skip_verify of the Redis URL must be true or false")
		}
	}
	if query.Has("cert") != query.Has("key") {
		return nil, errors.New("the Redis URL has only one of cert and key: a client's certificate needs both")
	}
	return query, nil
}

// shardsParameter is the parameter of SplitShards.
const shardsParameter = "shards"

// MaxShards bounds the keyspaces of one URL: each has connections, heartbeats and scripts of its own.
const MaxShards = 1024

// SplitShards returns a Redis URL without its parameter shards, and how many keyspaces the parameter asks for:
// 0 without it. The error says what is wrong with the parameter, and repeats none of the text.
func SplitShards(text string) (url string, shards int, err error) {
	url, values := cutParameter(text, shardsParameter)
	if len(values) == 0 {
		return text, 0, nil
	}
	shards, err = strconv.Atoi(strings.Join(values, " ")) // a second one makes it no number
	if err != nil || shards < 1 || shards > MaxShards {
		return "", 0, fmt.Errorf("the shards of the Redis URL must be one number from 1 to %d, as in redis+cluster://host1,host2?shards=12", MaxShards)
	}
	return url, shards, nil
}

// A NamedURL is an item of a list of shards: the URL of its server, and whether it takes no jobs without a
// bound key (Closed) or none with one (Unbound).
type NamedURL struct {
	Name, URL       string
	Closed, Unbound bool
}

// namedURL matches an item of a list: no URL has a = before its scheme.
var namedURL = regexp.MustCompile(`^([^\s:/?#@=]+)=([a-z+]+://.*)$`)

// SplitList returns the items of a list of shards, NAME=URL with white space between them. A URL there may have
// the parameters closed=true and unbound=true, which no other URL has. A text without such an item is no list,
// and the result is nil. The error repeats nothing of a URL.
func SplitList(text string) ([]NamedURL, error) {
	var list []NamedURL
	var errs []error
	others := 0
	for _, item := range strings.Fields(text) {
		parts := namedURL.FindStringSubmatch(item)
		if parts == nil {
			others++
			continue
		}
		named := NamedURL{Name: parts[1], URL: parts[2]}
		for name, flag := range map[string]*bool{"closed": &named.Closed, "unbound": &named.Unbound} {
			url, values := cutParameter(named.URL, name)
			named.URL = url
			if len(values) == 0 {
				continue
			}
			var err error
			if *flag, err = strconv.ParseBool(strings.Join(values, " ")); err != nil {
				errs = append(errs, fmt.Errorf("shard %s: the %s of its Redis URL must be true or false", named.Name, name))
			}
		}
		list = append(list, named)
	}
	if list != nil && others > 0 {
		errs = append(errs, errors.New("the list of shards has an item that is not NAME=URL, such as a=redis://host1"))
	}
	return list, errors.Join(errs...)
}

// AddURL returns what a flag has that is given several times: the last URL, or all of them as one list, with
// white space between them, if one of them is an item of a list. SplitList refuses a list with other items.
func AddURL(before, url string) string {
	both := before + " " + url
	if list, _ := SplitList(both); before != "" && list != nil {
		return both
	}
	return url
}

// cutParameter returns a URL without a parameter, and the values that it had.
func cutParameter(text, name string) (url string, values []string) {
	before, query, _ := strings.Cut(text, "?")
	rest := slices.DeleteFunc(strings.Split(query, "&"), func(part string) bool {
		value, is := strings.CutPrefix(part, name+"=")
		if is {
			values = append(values, value)
		}
		return is
	})
	switch {
	case len(values) == 0:
		return text, nil
	case len(rest) > 0:
		before += "?" + strings.Join(rest, "&")
	}
	return before, values
}

// pool returns the parameters that only go-redis reads.
func pool(query url.Values) url.Values {
	own := url.Values{}
	for name, values := range query {
		if slices.Contains(PoolParameters, name) {
			own[name] = values
		}
	}
	return own
}

// duration parses a duration as go-redis does in URLs: a bare number is seconds.
func duration(text string) (time.Duration, error) {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	return time.ParseDuration(text) //nolint:wrapcheck // not shown
}
