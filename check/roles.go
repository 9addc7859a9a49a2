package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A Role is a kind of program, by what its user of Redis must be allowed to do.
type Role string

const (
	// RoleWorker runs jobs, and pushes them.
	RoleWorker Role = "worker"
	// RoleProducer pushes jobs, and waits for tracked ones. It can neither read nor delete what waits. By its
	// id it can read a tracked job that has ended, and read and change a batch: Redis permits kinds of keys,
	// not single jobs.
	RoleProducer Role = "producer"
	// RoleOperator sees all jobs, queues and processes, and acts on them.
	RoleOperator Role = "operator"
	// RoleDashboard sees what an operator sees, and changes nothing.
	RoleDashboard Role = "dashboard"
)

// purposes are what the programs of a role do.
var purposes = map[Role][]purpose{
	RoleWorker:    {toCall, toPush, toKeep, toWork, toWait, toWatch, toTell, toAwait, toRead},
	RoleProducer:  {toCall, toPush, toKeep, toAwait, toRead},
	RoleOperator:  {toCall, toLook, toList, toAct, toRead},
	RoleDashboard: {toCall, toLook, toList, toRead},
}

// Roles returns all roles.
func Roles() []Role { return []Role{RoleWorker, RoleProducer, RoleOperator, RoleDashboard} }

// Rule returns the ACL SETUSER command that allows a user what the programs of a role do in the keyspace of
// cfg.Prefix, or in those of cfg.Shards, and nothing else. It changes neither the user's passwords nor those
// of others. Redis checks a script's commands one by one, so a user that may run scripts can do no more in
// them than outside. It returns an error if the role does not exist, or the user cannot have that name.
//
// A key of Sidekiq's is named after the host of a process, so all roles but the producer's may use their
// commands on every key of the prefix. A producer has a selector for each kind of key.
func Rule(role Role, user string, cfg Config) (string, error) {
	of, exists := purposes[role]
	if !exists {
		return "", fmt.Errorf("there is no role %q", string(role))
	}
	if err := checkUser(user); err != nil {
		return "", err
	}
	rule := strings.Fields("ACL SETUSER " + user + " on resetkeys resetchannels clearselectors -@all")
	if len(cfg.Shards) == 0 {
		cfg.Shards = []string{cfg.Prefix}
	}
	begin := beginning(cfg.Shards)
	keyless, channels, commands := commandsOf(of, begin)
	rule = append(rule, "+select", "+client|setname") // the URL may name a database, and the connections
	if _, tagged := driver.HashTag(cfg.Shards[0]); tagged {
		rule = append(rule, "+cluster|slots") // and may be that of a Cluster
	}
	rule = append(rule, keyless...)
	if all := "~" + begin + "*"; commands[all] != nil {
		rule = append(append(rule, inOrder(slices.Concat(slices.Collect(maps.Values(commands))...))...), all)
		return strings.Join(append(rule, channels...), " "), nil
	}
	// All keys of a script must be allowed together with EVALSHA. What the script does to each is another
	// question, which the selectors answer.
	keys := slices.Sorted(maps.Keys(commands))
	rule = append(append(rule, keys...), channels...)
	same := map[string][]string{}
	for _, key := range keys {
		list := strings.Join(inOrder(commands[key]), " ")
		same[list] = append(same[list], key)
	}
	for _, list := range slices.Sorted(maps.Keys(same)) {
		rule = append(rule, "("+list+" "+strings.Join(same[list], " ")+")")
	}
	return strings.Join(rule, " "), nil
}

// commandsOf returns, as words of a rule, the commands without a key, the channels, and for each pattern of
// keys the commands that these purposes need. All keys begin as the pattern begin.
func commandsOf(of []purpose, begin string) (keyless, channels []string, commands map[string][]string) {
	keys := lua.NewKeys(strings.TrimSuffix(begin, ":"))
	one, other := needs(keys, samples[0]), needs(keys, samples[1])
	commands = map[string][]string{}
	for i, n := range one {
		switch {
		case !slices.Contains(of, n.purpose):
		case len(n.keys) > 0:
			patterns := make([]string, len(n.keys))
			for k, key := range n.keys {
				patterns[k] = "~" + common(key, other[i].keys[k])
			}
			group := strings.Join(patterns, " ")
			commands[group] = append(commands[group], "+"+n.command)
		default:
			keyless = append(keyless, "+"+n.command)
			if n.channel != "" {
				channels = append(channels, "&"+n.channel)
			}
		}
	}
	return inOrder(keyless), inOrder(channels), commands
}

func inOrder(words []string) []string { return slices.Compact(slices.Sorted(slices.Values(words))) }

// samples have no name in common, and neither a beginning nor an end of one: what their keys have in common is
// common to all keys of the kind.
var samples = [2]sample{
	{
		queues: []string{"first"}, patterns: true, identity: "one:1:a", digest: strings.Repeat("0", 32), jid: "123", bid: "12", class: "First", name: "daily",
		number: 1, at: time.Date(1999, 1, 2, 3, 4, 0, 0, time.UTC),
	},
	{
		queues: []string{"second"}, patterns: true, identity: "two:2:b", digest: strings.Repeat("f", 32), jid: "456", bid: "45", class: "Second", name: "weekl",
		number: 2, at: time.Date(2888, 11, 30, 15, 56, 0, 0, time.UTC),
	},
}

// common returns the pattern of the keys that begin and end as both of these do; the key itself if they are
// equal.
func common(one, other string) string {
	if one == other {
		return one
	}
	head := commonHead(one, other)
	tail := min(commonTail(one, other), len(one)-head, len(other)-head)
	return one[:head] + "*" + one[len(one)-tail:]
}

// commonHead and commonTail return how long the common beginning and the common end of two texts are.
func commonHead(one, other string) (n int) {
	for n < min(len(one), len(other)) && one[n] == other[n] {
		n++
	}
	return n
}

func commonTail(one, other string) (n int) {
	for n < min(len(one), len(other)) && one[len(one)-1-n] == other[len(other)-1-n] {
		n++
	}
	return n
}

// beginning returns a pattern of the beginnings of all keys with these prefixes. If they differ by a number it
// has any number there, so that the rule fits shards that are added.
func beginning(prefixes []string) string {
	texts := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		texts[i] = escaped(prefix)
	}
	first := texts[0]
	if !slices.ContainsFunc(texts, func(text string) bool { return text != first }) {
		return first
	}
	head, tail := len(first), len(first)
	for _, text := range texts {
		head = min(head, commonHead(first, text))
	}
	for _, text := range texts {
		tail = min(tail, commonTail(first, text), len(first)-head, len(text)-head)
	}
	between := "[0-9]*"
	for _, text := range texts {
		if part := text[head : len(text)-tail]; part == "" || strings.Trim(part, "0123456789") != "" {
			between = "*"
		}
	}
	return first[:head] + between + first[len(first)-tail:]
}

// escaped returns the beginning of all keys with this prefix as a pattern. A rule cannot contain white space or
// quotation marks, so it has "any character" in their place.
func escaped(prefix string) string {
	if prefix == "" {
		return ""
	}
	var pattern strings.Builder
	for _, c := range prefix {
		switch {
		case unicode.IsSpace(c) || unicode.IsControl(c) || c == '"' || c == '\'':
			pattern.WriteString(strings.Repeat("?", len(string(c)))) // Redis counts bytes
		case strings.ContainsRune(`*?[]\`, c):
			pattern.WriteString(`\` + string(c))
		default:
			pattern.WriteRune(c)
		}
	}
	return pattern.String() + ":"
}

func checkUser(user string) error {
	switch {
	case user == "":
		return errors.New("the user has no name")
	case user == "default":
		return errors.New(`the user "default" is that of all clients without a name: choose another name`)
	case strings.ContainsFunc(user, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) || strings.ContainsRune(`"'`, c) }):
		return fmt.Errorf("user %q: a user's name has neither white space nor quotation marks", user)
	}
	return nil
}

// Permitted returns an error if this user may not do what the programs of a role cannot do without, with the
// rule that is missing. It is one of a server that denies access: see [driver.Denial]. It returns no error if
// the server cannot say what the user may do. Nothing is added to the ACL LOG.
func Permitted(ctx context.Context, client driver.Client, role Role, cfg Config) (Permissions, error) {
	f := facts{cfg: cfg.withDefaults()}
	// A small call comes first: a Redis that wants a password closes the connection at a large one, and the
	// reply that says so may be lost.
	ping := client.Do(ctx, driver.Command("PING"))[0].Err
	if ping == nil {
		f.readPermissions(ctx, client)
	}
	if err := cmp.Or(ping, f.byText, f.byAddress); err != nil && (driver.Denial(err) != "" || driver.Outage(err)) {
		return Permissions{}, fmt.Errorf("ask what this user may do: %w", err)
	}
	list, missed := f.permissions.lacking(slices.DeleteFunc(slices.Clone(purposes[role]), func(p purpose) bool { return inessential[p] })...)
	if len(list) > 0 {
		refusal := "NOPERM this user may not " + missed + "; the missing rule is: " + f.permissions.permit(f.cfg.Prefix, list)
		return Permissions{}, fmt.Errorf("a %s needs more permissions: %w", role, driver.NewServerError(refusal))
	}
	return f.Permissions, nil
}

// inessential are the purposes that programs can do without.
var inessential = map[purpose]bool{toWait: true, toWatch: true, toTell: true, toAwait: true, toKeep: true, toRead: true}

// permits reports whether nothing of what a role does is known to be denied, except what only a check needs.
func (p permissions) permits(role Role) bool {
	return !slices.ContainsFunc(p.denied, func(n need) bool { return n.purpose != toRead && slices.Contains(purposes[role], n.purpose) })
}
