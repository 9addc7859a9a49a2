package driver

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A URL is what a Redis URL says, for an adapter: which server its connections lead to, and how they begin.
type URL struct {
	Kind Kind
	// Network is tcp or unix.
	Network string
	// Addrs are the addresses, host:port, of the server, of the sentinels or of nodes of the Cluster; or the
	// path of the server's socket. There is at least one.
	Addrs []string
	// Name is the name of the primary, with sentinels.
	Name string
	// DB is the number of the database.
	DB         int
	ClientName string
	// Credentials and SentinelCredentials return the user and the password of a new connection to a server and
	// to a sentinel; nil for none. They read password files anew each time.
	Credentials, SentinelCredentials Credentials
	// TLS is nil for connections without it.
	TLS *TLS
	// DialTimeout bounds a dial, with the search for the server; it is at most the constant DialTimeout.
	DialTimeout time.Duration
	// Pool are the parameters among PoolParameters, which only go-redis reads.
	Pool url.Values

	prefix string
}

// A Kind is what the addresses of a URL are those of.
type Kind int

// The kinds of URLs.
const (
	// KindServer is the server itself, whatever its role is.
	KindServer Kind = iota
	// KindSentinel is sentinels, which know the address of a primary by its name.
	KindSentinel
	// KindCluster is nodes of a Redis Cluster, which know the address of the primary of a slot.
	KindCluster
)

// An Option adds to a URL what its text does not say.
type Option func(*URL)

// ForPrefix tells which prefix the keys have, so that a client finds the node of a Redis Cluster that serves
// them: the one of the prefix' hash tag. Other kinds of URLs do not need it.
func ForPrefix(prefix string) Option { return func(u *URL) { u.prefix = prefix } }

// ParseURL parses a Redis URL, alike for all adapters:
//
//	redis://[user:password@]host[:port][/db]
//	unix://[user:password@]/path[?db=N]
//	redis+sentinel://[user:password@]host1[:port],host2,…/NAME[/db]    the primary that the sentinels call NAME
//	redis+cluster://[user:password@]host1[:port],host2,…               the primary of the slot of the prefix
//
// rediss instead of redis means TLS, also for the sentinels; valkey and valkeys mean the same two. A prefix for
// a Cluster needs a hash tag, such as {shop}, which puts all of its keys into one slot (see ForPrefix).
//
// Parameters of every URL: db (which overrides the path), dial_timeout (a duration, or whole seconds),
// client_name, and password_file. With TLS: ca, cert and key (PEM files: whom to trust instead of the
// system's authorities, and the client's certificate), server_name (the name to verify instead of the host),
// and skip_verify=true. With sentinels: sentinel_user and sentinel_password_file; user and password of the
// URL are those of the servers. SplitShards removes the parameter shards, which ParseURL refuses. master_set
// and addr, rueidis' own form, turn redis:// into redis+sentinel://. All files are read again for each
// connection. The parameters in PoolParameters are go-redis' own. Its parameters for retries, timeouts and
// the protocol are accepted and removed, because the adapters set these.
//
// No error repeats any of the text, which may hold a password in any place.
func ParseURL(text string, options ...Option) (*URL, error) {
	parts, err := Structure(text)
	if err != nil {
		return nil, err
	}
	query, err := parameters(parts)
	if err != nil {
		return nil, err
	}
	u := &URL{Network: "tcp", ClientName: query.Get("client_name"), DialTimeout: DialTimeout, Pool: pool(query)}
	for _, option := range options {
		option(u)
	}
	_, kind, _ := strings.Cut(parts.Scheme, "+")
	switch {
	case parts.Scheme == "unix":
		u.Network, u.Addrs = "unix", []string{strings.TrimSpace(parts.Path)}
	case kind == "cluster":
		u.Kind = KindCluster
		if _, tagged := HashTag(u.prefix); !tagged {
			return nil, errors.New("the Redis URL is that of a Cluster, so the prefix of the keys needs a hash tag, such as {shop}: " +
				"it puts all of them into one slot, and so onto one node (--prefix '{shop}', or ClientConfig.Prefix)")
		}
	case kind == "sentinel", query.Has("master_set"):
		u.Kind = KindSentinel
	}
	if err := errors.Join(u.setAddrs(parts, query), u.setDatabase(parts, query), u.setSecrets(parts, query)); err != nil {
		return nil, err
	}
	if limit, err := duration(query.Get("dial_timeout")); err == nil && limit > 0 {
		u.DialTimeout = min(limit, DialTimeout)
	}
	return u, nil
}

// setAddrs sets the addresses.
func (u *URL) setAddrs(parts *url.URL, query url.Values) error {
	if u.Network == "unix" {
		return nil
	}
	port := "6379"
	if u.Kind == KindSentinel {
		port = "26379"
	}
	hosts := strings.Split(parts.Host, ",")
	if u.Kind == KindServer && len(hosts) > 1 {
		return errors.New("the Redis URL has several hosts: it needs the scheme redis+sentinel or redis+cluster")
	}
	for _, host := range append(hosts, query["addr"]...) {
		parsed := url.URL{Host: host}
		name, own := parsed.Hostname(), parsed.Port()
		if host == "" && len(hosts) > 1 || strings.ContainsAny(name, " @[]\\") || strings.Contains(name, ":") && host[0] != '[' {
			return errors.New("the Redis URL has a host that cannot be parsed: it should look like host:port, or [::1]:port")
		}
		u.Addrs = append(u.Addrs, net.JoinHostPort(cmp.Or(name, "localhost"), cmp.Or(own, port)))
	}
	return nil
}

// setDatabase sets the database, and the name of the primary.
func (u *URL) setDatabase(parts *url.URL, query url.Values) error {
	path := strings.Trim(parts.Path, "/")
	switch name := query.Get("master_set"); {
	case u.Network == "unix":
		path = ""
	case u.Kind == KindSentinel && name != "":
		u.Name = name
	case u.Kind == KindSentinel:
		u.Name, path, _ = strings.Cut(path, "/")
		if u.Name == "" {
			return errors.New("the Redis URL lacks the name of the primary: it should look like redis+sentinel://host1,host2,host3/NAME")
		}
	}
	if query.Has("db") {
		path = query.Get("db")
	} else if path == "" {
		return nil
	}
	db, err := strconv.ParseUint(path, 10, 31)
	if err != nil {
		return errors.New("the database in the Redis URL must be a number, 0 or more, as in redis://host:port/0")
	}
	u.DB = int(db)
	return nil
}

// Node returns the URL of one sentinel of a URL of sentinels, or of one node of a Cluster.
func (u *URL) Node(addr string) *URL {
	node := &URL{Network: "tcp", Addrs: []string{addr}, Credentials: u.Credentials, TLS: u.TLS, DialTimeout: u.DialTimeout}
	if u.Kind == KindSentinel {
		node.Credentials = u.SentinelCredentials
	}
	return node
}

// String returns the URL for display: addresses, name and database, without user, password or parameters.
func (u *URL) String() string {
	shown := ServerURL(u.Network, strings.Join(u.Addrs, ","), u.DB, u.TLS != nil)
	scheme, rest, _ := strings.Cut(shown, "://")
	switch u.Kind {
	case KindServer:
	case KindCluster:
		return scheme + "+cluster://" + rest
	case KindSentinel:
		hosts, db, _ := strings.Cut(rest, "/")
		return scheme + "+sentinel://" + hosts + "/" + url.PathEscape(u.Name) + "/" + db
	}
	return shown
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
