package check

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/belayq/belay/driver"
)

func checkAccess(f *facts) Finding {
	switch f.refused.Code {
	case "NOAUTH":
		return bad("put the password into the Redis URL, percent-encoded: redis://user:password@host", "Redis wants a password, and the URL has none")
	case "WRONGPASS":
		return bad("correct the user and the password in the Redis URL", "Redis does not accept this user and password")
	}
	if strings.Contains(f.refused.Message, "max number of clients") {
		return bad("raise maxclients, or find out which clients keep so many connections open (CLIENT LIST)", "Redis accepts no more connections")
	}
	return bad("fix what the message says; the Redis URL has the user, the password and the database number",
		"Redis refuses access: %s", f.refused.Message)
}

// checkVersion requires Redis 7.0, the first whose scripts may declare that they run on a full Redis, or
// Valkey, whose first version was 7.2. The other servers that speak Redis' protocol are named, with what they
// lack.
func checkVersion(f *facts) Finding {
	const advice = "use Redis 7.0 or newer, or Valkey"
	version := cmp.Or(f.info["redis_version"], f.version)
	_, keyDB := f.info["mvcc_depth"]
	switch valkey, dragonfly := f.info["valkey_version"], f.info["dragonfly_version"]; {
	case valkey != "" || f.info["server_name"] == "valkey":
		return ok("Valkey %s", cmp.Or(valkey, version))
	case dragonfly != "":
		return warn(advice, "Dragonfly %s: Belay is not tested with it. It does not know the flag allow-oom of scripts, so that a full one "+
			"may refuse to hand out and end jobs, nor redis.acl_check_cmd, so that a lack of permissions shows only when something fails", dragonfly)
	case keyDB:
		return bad(advice, "KeyDB %s has the scripts of Redis 6, without the flag allow-oom and redis.acl_check_cmd: workers and clients refuse it", version)
	case version == "":
		return warn("make sure that it is Redis 7.0 or newer, or Valkey", "cannot see the version")
	case driver.OldVersion(version):
		return bad("upgrade to Redis 7.0 or newer", "Redis %s is too old: workers and clients refuse it", version)
	}
	return ok("Redis %s", version)
}

// unverified reports whether a client uses TLS without verifying the server's certificate.
func unverified(client driver.Client) bool {
	tells, does := client.(interface{ Unverified() bool })
	return does && tells.Unverified()
}

func checkCertificate(f *facts) Finding {
	if !f.unverified {
		return silence
	}
	return warn("put the server's CA into the Redis URL (ca=FILE), and remove skip_verify",
		"the certificate of Redis is not verified (skip_verify): a machine in between can read and change everything, passwords too")
}

func checkRole(f *facts) Finding {
	if f.info["loading"] == "1" {
		return bad("wait until it has loaded its data", "Redis is still loading its data")
	}
	switch role := f.info["role"]; role {
	case "slave":
		host := f.info["master_host"] + ":" + f.info["master_port"]
		if f.info["slave_read_only"] == "0" {
			return bad("give the URL of the primary", "this is a writable replica of %s: all that is written here is lost at its next full sync", host)
		}
		return bad("give the URL of the primary", "this is a read-only replica of %s: nothing can be pushed, taken or ended here", host)
	case "":
		return silence
	default:
		return ok("%s", role)
	}
}

// checkCluster requires all keys in one slot, and that slot on this node.
func checkCluster(f *facts) Finding {
	var refused *driver.ServerError
	moved := errors.As(f.key, &refused) && (refused.Code == "MOVED" || refused.Code == "CLUSTERDOWN" || refused.Code == "ASK")
	if !moved && f.info["cluster_enabled"] != "1" && f.info["redis_mode"] != "cluster" {
		if f.info == nil {
			return silence
		}
		return ok("not a Cluster")
	}
	switch _, tagged := driver.HashTag(f.cfg.Prefix); {
	case !tagged:
		return bad("give a prefix with a hash tag, which keeps all keys in one slot: --prefix '{belay}'",
			"this is a Redis Cluster and the prefix has no hash tag: Belay's scripts need all their keys in one slot")
	case moved && refused.Code == "CLUSTERDOWN":
		return bad("repair the Cluster: redis-cli --cluster check", "the Cluster is down, or no node serves the prefix' slot: %s", refused.Message)
	case moved:
		return bad("give the URL of the Cluster: redis+cluster://HOST", "another node of the Cluster serves the slot of this prefix: %s", refused.Message)
	}
	return ok("a Cluster; all keys lie in one slot of this node. With a URL redis+cluster://HOST programs follow the slot to another node")
}

// checkScripts requires EVAL, which loads a script, EVALSHA, which runs it from then on, and script flags.
func checkScripts(f *facts) Finding {
	byText, byAddress := f.byText, f.byAddress
	var refused *driver.ServerError
	if errors.As(cmp.Or(byText, byAddress), &refused) && driver.Outage(refused) {
		return bad("fix what the message says", "Redis runs no scripts at the moment: %s", refused.Message)
	}
	if refused != nil && strings.Contains(refused.Message, "rror compiling script") {
		return bad("upgrade to Redis 7.0 or newer", "scripts with a line #!lua flags=allow-oom are not understood: a full Redis cannot be drained")
	}
	const permit = "permit EVAL and EVALSHA: ACL SETUSER %s +eval +evalsha"
	advice := strings.ReplaceAll(permit, "%s", f.permissions.name())
	switch {
	case byText != nil && byAddress != nil:
		return bad(advice, "scripts cannot be run, and everything that Belay does is a script: %v", byText)
	case byAddress != nil:
		return bad(advice, "EVALSHA is refused, and all of Belay's scripts are run by it: %v", byAddress)
	case byText != nil:
		return bad(advice, "EVAL is refused: after a restart of Redis no script could be loaded again: %v", byText)
	}
	return ok("EVAL, EVALSHA and #!lua flags=allow-oom work; SCRIPT LOAD and FUNCTION are not needed")
}

func checkPermissions(f *facts) Finding {
	p := f.permissions
	if !p.known {
		return warn("permit EVAL and EVALSHA, and run belay check again", "cannot see what this user may do: that needs a script and redis.acl_check_cmd")
	}
	if toRepair, missed := p.lacking(toCall, toPush, toWork); len(toRepair) > 0 {
		return bad(p.permit(f.cfg.Prefix, toRepair), "this user may not %s%s", missed, p.suffices())
	}
	if toRepair, missed := p.lacking(toTell, toAwait, toKeep); len(toRepair) > 0 {
		return warn(p.permit(f.cfg.Prefix, toRepair), "jobs run, but what is not essential fails (statistics of classes, hints at a start, quick waits for tracked jobs, pushes with Replicas): this user may not %s", missed)
	}
	if _, missed := p.lacking(toLook, toList, toAct); missed != "" {
		// A worker's user need not have an operator's permissions.
		return ok("this user may do all that workers do, but not all that operators do with belay status, queues, dead and the like: it may not %s", missed)
	}
	return ok("this user may do all that Belay does")
}

func checkBlocking(f *facts) Finding {
	p := f.permissions
	list, missed := p.lacking(toWait)
	switch {
	case !p.known:
		return silence
	case len(list) == 0:
		return ok("BLMOVE, CLIENT ID and CLIENT UNBLOCK are permitted: idle workers wait without polling")
	case p.may("blmove"):
		return warn(p.permit(f.cfg.Prefix, list), "this user may not %s: idle waits end by themselves, so that a pause or a stop may take a second longer", missed)
	}
	return warn(p.permit(f.cfg.Prefix, list), "this user may not %s: idle workers poll their queues a few times a second instead of waiting", missed)
}

// checkPresence says how soon the death of a worker is found.
func checkPresence(f *facts) Finding {
	p := f.permissions
	list, missed := p.lacking(toWatch)
	switch {
	case !p.known:
		return silence
	case len(list) == 0:
		return ok("SUBSCRIBE and PUBSUB NUMSUB are permitted: the jobs of a killed worker come back within seconds")
	}
	return warn(p.permit(f.cfg.Prefix, list), "this user may not %s: the jobs of a killed worker come back after up to 15 seconds instead of 3", missed)
}

// suffices says for which roles the permissions of a user that cannot work are enough.
func (p permissions) suffices() string {
	var enough []string
	for _, role := range Roles() {
		if p.permits(role) {
			enough = append(enough, string(role))
		}
	}
	if len(enough) == 0 {
		return ""
	}
	return ". It may do all that a " + strings.Join(enough, " or a ") + " does, which is enough for such a program"
}

// lacking returns the denied needs of some purposes, and the first few of them as text.
func (p permissions) lacking(of ...purpose) (list []need, words string) {
	const atMost = 4
	var named []string
	for _, n := range p.denied {
		if !slices.Contains(of, n.purpose) {
			continue
		}
		list = append(list, n)
		if len(named) < atMost {
			named = append(named, strings.TrimSpace(strings.ReplaceAll(n.command, "|", " ")+" "+strings.Join(n.keys, " ")+n.channel))
		}
	}
	words = strings.Join(named, ", ")
	if more := len(list) - len(named); more > 0 {
		words += " and " + strconv.Itoa(more) + " more"
	}
	return list, words
}

// permit returns the ACL rule that permits these needs: their commands, and all keys under the prefix.
// Without a prefix that is all keys, because the key of a process' hash begins with the name of its host.
func (p permissions) permit(prefix string, list []need) string {
	rule := []string{"ACL SETUSER", p.name()}
	keys, channels := false, []string(nil)
	for _, n := range list {
		if command := "+" + n.command; !slices.Contains(rule, command) {
			rule = append(rule, command)
		}
		keys = keys || len(n.keys) > 0
		if n.channel != "" && !slices.Contains(channels, "&"+n.channel) {
			channels = append(channels, "&"+n.channel)
		}
	}
	if keys && prefix != "" {
		rule = append(rule, "~"+prefix+":*")
	} else if keys {
		rule = append(rule, "~*")
	}
	return strings.Join(append(rule, channels...), " ")
}

func (p permissions) name() string { return cmp.Or(p.user, "USER") }
