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

// Permissions are what a user of Redis may do, as [Permitted] has found out. The zero value is unknown.
type Permissions struct {
	scripts
	permissions permissions
}

type scripts struct {
	byText, byAddress error // the errors of EVAL and EVALSHA
	asked             bool
}

// permissions is what this user may do, as far as known.
type permissions struct {
	user   string // empty if unknown
	known  bool   // false if scripts cannot be run, or cannot ask
	denied []need
}

// may reports whether a command is not known to be denied.
func (p permissions) may(command string) bool {
	return !slices.ContainsFunc(p.denied, func(n need) bool { return n.command == command })
}

// readPermissions asks what this user may do. Only a script can ask without an administrator's permissions, and
// a user that may not run scripts must get that permission first.
func (f *facts) readPermissions(ctx context.Context, client driver.Client) {
	if f.asked {
		return
	}
	f.ask(ctx, client, needs(lua.NewKeys(f.cfg.Prefix), sampleOf(f.cfg.Queues, sampleIdentity())))
	if f.permissions.may("acl|whoami") {
		f.permissions.user, _ = client.Do(ctx, driver.Command("ACL", "WHOAMI"))[0].Value.(string)
	}
}

func sampleIdentity() string {
	host, _ := os.Hostname() // any name is as good
	return cmp.Or(host, "localhost") + ":1:000000000000"
}

func (f *facts) ask(ctx context.Context, client driver.Client, list []need) {
	var args []string
	for _, need := range list {
		words := need.words()
		args = append(append(args, strconv.Itoa(len(words))), words...)
	}
	text, _ := probe.Text(true)
	replies := client.Do(ctx, driver.Command(append([]string{"EVAL", text, "0"}, args...)...), driver.Call{Script: probe, Args: args})
	f.scripts = scripts{byText: replies[0].Err, byAddress: replies[1].Err, asked: true}
	for _, reply := range replies {
		answer, _ := reply.Value.([]any)
		if len(answer) != 2 || answer[0] != int64(1) {
			continue
		}
		positions, _ := answer[1].([]any)
		f.permissions.known, f.permissions.denied = true, nil
		for _, position := range positions {
			if at, isNumber := position.(int64); isNumber && at >= 1 && int(at) <= len(list) {
				f.permissions.denied = append(f.permissions.denied, list[at-1])
			}
		}
	}
}
