-- How luacheck reads the scripts: Lua 5.1 as Redis runs it. A name that is not known here is a typo, or
-- something that Redis keeps from scripts; no script sets a global.
-- A first line that begins with "#!" is a comment to luacheck too, so scripts are checked as stored.
std = "lua51"
read_globals = { "redis", "KEYS", "ARGV", "cjson", "cmsgpack", "struct", "bit" }

-- What scripts share stands once, in lua/shared, and is a local of each script that says "-- include NAME".
local shared = { "may", "must_be", "newer_mark", "unlocked", "free", "list", "leave", "take_lock", "large", "count_runs", "read_page", "may_write_state", "state_version", "write_state", "read_owned", "may_end", "blocked", "end_owned", "finish_owned", "read_orphans", "move_orphans", "note_up", "busy", "find_large", "has_jid", "trim_dead", "seen", "follow", "may_count", "count", "use_gates", "gate_at", "may_use", "may_look", "may_admit", "look", "look_again", "keep_size", "shut", "rule_is_gone", "less", "may_less", "end_leases", "grant", "admit", "use_permits", "read_counts", "change_count", "write_counts", "gates", "slots", "admitted", "waiting", "limits", "subscribers" }
files["lua/*.lua"].read_globals = shared
files["contrib/gitlab/*.lua"].read_globals = shared
files["lua/shared/*.lua"] = { ignore = { "211" }, globals = { "kinds" }, read_globals = { "may", "must_be", "free", "list", "unlocked", "take_lock", "follow", "may_count", "count", "may_write_state", "state_version", "write_state", "read_owned", "may_end", "end_owned", "finish_owned", "may_rate", "permits", "use_gates", "gate_at", "may_use", "may_look", "may_admit", "look", "look_again", "keep_size", "shut", "rule_is_gone", "less", "may_less", "grant", "admit", "read_counts", "change_count", "write_counts", "gates", "slots", "admitted", "waiting", "limits" } } -- a function that is used elsewhere

-- In Lua's own library but not in Redis': found here, or else by the first job that takes that branch.
not_globals = {
    "debug", "dofile", "getfenv", "io", "loadfile", "module", "newproxy", "os", "package", "print", "require", "setfenv",
}

-- A script's header says what each key and argument is, one to a line; those lines are long.
max_line_length = 140
