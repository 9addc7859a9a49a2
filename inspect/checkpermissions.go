package inspect

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// probe asks from within a script, where each user may ask what it may do, and where nothing is written to the ACL LOG for
// it. It stands here and not among the moves of package lua because it touches no key.
//
// ARGV are the needs, each the number of its words and the words. It answers the server's version, whether it could ask,
// and the positions of those that are denied. A command that does not exist (it was renamed) is denied as well.
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
return { redis.REDIS_VERSION or '', redis.acl_check_cmd and 1 or 0, denied }`)

// scripts is how the server took the probe.
type scripts struct {
	byText, byAddress error // what EVAL and EVALSHA were refused with
	version           string
}

// permissions is what is known of what our user may do.
type permissions struct {
	user   string // empty when we were not told
	how    string // the way it was found out
	denied []need
	unseen int // needs of which nothing is known
}

// may says whether a command is not known to be denied.
func (p permissions) may(command string) bool {
	return !slices.ContainsFunc(p.denied, func(n need) bool { return n.command == command })
}

// readPermissions finds out what our user may do, by the best of three ways that is open to it.
func (f *facts) readPermissions(ctx context.Context, client driver.Client) {
	list := needs(lua.NewKeys(f.cfg.Prefix), f.cfg.Queues, sampleIdentity())
	asked := f.askScript(ctx, client, list)
	if !asked || f.permissions.may("acl|whoami") {
		f.permissions.user, _ = client.Do(ctx, driver.Command("ACL", "WHOAMI"))[0].Value.(string)
	}
	if !asked && !f.askACL(ctx, client, list) {
		f.tryHarmless(ctx, client, list)
	}
}

// sampleIdentity is an identity as a worker on this host draws it.
func sampleIdentity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return host + ":1:000000000000"
}

// askScript runs the probe in both ways in which scripts are run.
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
		if len(answer) != 3 {
			continue
		}
		f.scripts.version, _ = answer[0].(string)
		positions, _ := answer[2].([]any)
		if answer[1] != int64(1) {
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

// askACL asks by a command that few users but administrators may call.
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

// tryHarmless calls what changes nothing. Denied calls are written to the ACL LOG, so it is the last way.
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
		var refused *driver.ServerError
		if errors.As(reply.Err, &refused) && (refused.Code == "NOPERM" || strings.Contains(refused.Message, "unknown command")) {
			f.permissions.denied = append(f.permissions.denied, tried[i])
		}
	}
	f.permissions.unseen = len(list) - len(tried)
}
