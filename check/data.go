package check

import (
	"cmp"
	"fmt"
	"strings"
)

// checkEviction requires noeviction, even without a maxmemory: one may be set later.
func checkEviction(f *facts) Finding {
	const advice = "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf or in the service's parameters"
	policy := cmp.Or(f.info["maxmemory_policy"], f.config["maxmemory-policy"])
	full := "when it is full"
	if limit, known := number(f.info, "maxmemory"); known && limit == 0 {
		full = "as soon as a maxmemory is set and reached"
	}
	switch {
	case policy == "":
		return warn("make sure that maxmemory-policy is noeviction", "cannot see maxmemory-policy")
	case policy == "noeviction":
		return ok("maxmemory-policy is noeviction: a full Redis refuses new jobs and loses none")
	case strings.HasPrefix(policy, "volatile-"):
		return bad(advice, "maxmemory-policy is %s: %s, Redis deletes keys that have a time to live. No job has one, but the locks of "+
			"unique jobs and the leases of workers do. The allkeys policies would delete jobs", policy, full)
	}
	return bad(advice, "maxmemory-policy is %s: %s, Redis deletes whole queues with all their jobs", policy, full)
}

// almostFull is the part of the memory at which to warn: early enough to act, late enough not to warn for
// nothing.
const almostFull = 0.85

func checkMemory(f *facts) Finding {
	const advice = "raise maxmemory, find out which queue grows (belay status), or delete what is not needed"
	used, known := number(f.info, "used_memory")
	limit, limited := number(f.info, "maxmemory")
	machine, _ := number(f.info, "total_system_memory")
	switch {
	case !known || !limited:
		return silence
	case limit == 0 && machine > 0 && float64(used) > almostFull*float64(machine):
		return warn("set maxmemory, and find out which queue grows (belay status)",
			"%s of the machine's %s are used, and no maxmemory is set: the system will kill Redis when its memory runs out", megabytes(used), megabytes(machine))
	case limit == 0:
		return ok("%s used; no maxmemory is set: with one, a full Redis would refuse new jobs instead of being killed by its system", megabytes(used))
	case used >= limit:
		return bad(advice, "Redis is full (%s of %s): new jobs are refused; queued jobs still run", megabytes(used), megabytes(limit))
	case float64(used) > almostFull*float64(limit):
		return warn(advice, "%s of %s are used: when it is full, new jobs are refused", megabytes(used), megabytes(limit))
	}
	return ok("%s of %s used", megabytes(used), megabytes(limit))
}

func megabytes(bytes int64) string { return fmt.Sprintf("%d MB", bytes>>20) }

// checkPersistence says what is lost when Redis itself dies: Belay keeps only what Redis keeps.
func checkPersistence(f *facts) Finding {
	const advice = "CONFIG SET appendonly yes, and the same in redis.conf or in the service's parameters"
	appends, known := f.config["appendonly"]
	if !known {
		appends, known = map[string]string{"0": "no", "1": "yes"}[f.info["aof_enabled"]], f.info["aof_enabled"] != ""
	}
	fsync := f.config["appendfsync"]
	save, savesKnown := f.config["save"]
	switch {
	case !known:
		return warn("make sure that appendonly is yes", "cannot see whether Redis keeps the data that it acknowledged")
	case appends == "yes" && fsync == "always":
		return ok("AOF, written to disk at each write: a crash loses nothing that was acknowledged")
	case appends == "yes" && fsync == "no":
		return warn("CONFIG SET appendfsync everysec", "AOF without fsync: a crash of the machine loses what its system had not written yet, "+
			"usually up to 30 seconds of pushes and completions")
	case appends == "yes":
		return ok("AOF: a crash of the machine loses about a second of pushes, and jobs that ended in that second run again")
	case !savesKnown:
		return warn(advice, "the AOF is off, and snapshots cannot be seen: a crash of Redis loses all jobs since the last snapshot, or all")
	case save != "":
		return warn(advice, "snapshots only: a crash of Redis loses all jobs pushed since the last one, and jobs that ended since then run again (save %s)", save)
	case f.replicas() > 0:
		return warn(advice, "nothing is written to disk: if Redis restarts before a replica has taken over, it comes back empty, "+
			"and its replicas follow it: all jobs are lost")
	}
	return bad(advice, "nothing is written to disk: a restart of Redis loses all jobs")
}

// checkDisk looks for failed writes to disk: Redis then refuses all writes.
func checkDisk(f *facts) Finding {
	const advice = "is the disk full, or the directory not writable? Redis' own log says more"
	switch {
	case f.info["aof_last_write_status"] == "err":
		return bad(advice, "the last write to the AOF failed: all writes are refused until one succeeds")
	case f.info["rdb_last_bgsave_status"] != "err":
		return silence
	}
	if f.config["stop-writes-on-bgsave-error"] == "no" {
		return warn(advice, "the last snapshot failed")
	}
	return bad(advice, "the last snapshot failed: all writes are refused until one succeeds (stop-writes-on-bgsave-error)")
}

func (f *facts) replicas() int64 {
	n, _ := number(f.info, "connected_slaves")
	return n
}

// checkReplication says what the server itself does against losses in a failover. What clients do cannot be
// seen there.
func checkReplication(f *facts) Finding {
	if f.info["role"] != "master" {
		return silence
	}
	const failover = "a failover loses the jobs that no replica had received, and jobs that ended in that time run again"
	required, known := number(f.config, "min-replicas-to-write")
	lag := cmp.Or(f.config["min-replicas-max-lag"], "10")
	if lag == "0" {
		required = 0 // Redis' word for "off"
	}
	good, on := number(f.info, "min_slaves_good_slaves") // Redis counts them only if it requires some
	if on && known && good < required {
		return bad("bring the replicas back, or lower min-replicas-to-write",
			"min-replicas-to-write is %d and %d replicas keep up: all writes are refused", required, good)
	}
	switch replicas := f.replicas(); {
	case replicas == 0:
		return ok("no replicas: jobs wait while Redis is down")
	case known && required == 0:
		return warn("CONFIG SET min-replicas-to-write 1, with min-replicas-max-lag 10",
			"%d replicas, asynchronous, and min-replicas-to-write is off: %s. A primary that is cut off still accepts jobs for a while, and they are lost too", replicas, failover)
	case known:
		return ok("%d replicas, and min-replicas-to-write is on: %d must keep up within %s seconds (min-replicas-max-lag), or writes are refused. Still %s",
			replicas, required, lag, failover)
	case on:
		return ok("%d replicas, and min-replicas-to-write is on: %d keep up. Still %s", replicas, good, failover)
	default:
		return ok("%d replicas, asynchronous, and min-replicas-to-write is off or cannot be seen: %s", replicas, failover)
	}
}
