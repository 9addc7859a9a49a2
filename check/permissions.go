package check

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strconv"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// probe asks for permissions from within a script: there every user may ask, and nothing is added to the ACL
// LOG. It is not in package lua because it touches no key.
//
// ARGV are the needs, each as the number of its words and the words. It returns whether it could ask, and the
// positions of the denied needs. A command that does not exist (because it was renamed)
// is denied.
var probe = driver.NewScript("check", `#!lua flags=no-writes,allow-oom
local denied, at, position = {}, 1, 0
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  position = position + 1
  local known, may = pcall(redis.acl_check_cmd, unpack(ARGV, at + 1, at + words))
  if not (known and may) then
    denied[#denied + 1] = position
  end
  at = at + words + 1
end
return { redis.acl_check_cmd and 1 or 0, denied }`)

type scripts struct {
	byText, byAddress error // the errors of EVAL and EVALSHA
}

// permissions is what this user may do, as far as known.
type permissions struct {
	user   string // empty if unknown
	how    string // how they were read
	denied []need
	unseen int // the number of needs that could not be checked
}

// may reports whether a command is not known to be denied.
func (p permissions) may(command string) bool {
	return !slices.ContainsFunc(p.denied, func(n need) bool { return n.command == command })
}

// readPermissions reads what this user may do, by the best of three ways that works.
func (f *facts) readPermissions(ctx context.Context, client driver.Client) {
	list := needs(lua.NewKeys(f.cfg.Prefix), f.cfg.Queues, sampleIdentity())
	answered := f.askScript(ctx, client, list)
	if !answered || f.permissions.may("acl|whoami") {
		f.permissions.user, _ = client.Do(ctx, driver.Command("ACL", "WHOAMI"))[0].Value.(string)
	}
	if !answered && !f.askACL(ctx, client, list) {
		f.tryHarmless(ctx, client, list)
	}
}

func sampleIdentity() string {
	host, _ := os.Hostname() // any name is as good
	return cmp.Or(host, "localhost") + ":1:000000000000"
}

func (f *facts) askScript(ctx context.Context, client driver.Client, list []need) bool {
	var args []string
	for _, need := range list {
		args = append(append(args, strconv.Itoa(len(need.words))), need.words...)
	}
	text, _ := probe.Text(true)
	replies := client.Do(ctx, driver.Command(append([]string{"EVAL", text, "0"}, args...)...), driver.Call{Script: probe, Args: args})
	f.scripts.byText, f.scripts.byAddress = replies[0].Err, replies[1].Err
	for _, reply := range replies {
		answer, _ := reply.Value.([]any)
		if len(answer) != 2 {
			continue
		}
		positions, _ := answer[1].([]any)
		if answer[0] != int64(1) {
			return false
		}
		f.permissions.how = "redis.acl_check_cmd"
		for _, position := range positions {
			if at, isNumber := position.(int64); isNumber && at >= 1 && int(at) <= len(list) {
				f.permissions.denied = append(f.permissions.denied, list[at-1])
			}
		}
		return true
	}
	return false
}

// askACL uses a command that usually only administrators may call.
func (f *facts) askACL(ctx context.Context, client driver.Client, list []need) bool {
	if f.permissions.user == "" {
		return false
	}
	calls := make([]driver.Call, len(list))
	for i, need := range list {
		calls[i] = driver.Command(append([]string{"ACL", "DRYRUN", f.permissions.user}, need.words...)...)
	}
	replies := client.Do(ctx, calls...)
	if replies[0].Err != nil {
		return false
	}
	f.permissions.how = "ACL DRYRUN"
	for i, reply := range replies {
		if reply.Err != nil || reply.Value != "OK" {
			f.permissions.denied = append(f.permissions.denied, list[i])
		}
	}
	return true
}

// tryHarmless calls commands that change nothing. Denied calls are added to the ACL LOG, so it is the last
// resort.
func (f *facts) tryHarmless(ctx context.Context, client driver.Client, list []need) {
	f.permissions.how = "trying"
	var tried []need
	var calls []driver.Call
	for _, need := range list {
		if len(need.keys) == 1 && slices.Contains(harmless, need.command) || slices.Contains([]string{"time", "ping", "client|id"}, need.command) {
			tried = append(tried, need)
			calls = append(calls, driver.Command(need.words...))
		}
	}
	for i, reply := range client.Do(ctx, calls...) {
		if driver.Forbidden(reply.Err) {
			f.permissions.denied = append(f.permissions.denied, tried[i])
		}
	}
	f.permissions.unseen = len(list) - len(tried)
}
