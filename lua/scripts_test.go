package lua

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

// parts are the parts of a script's header, in order.
var parts = []string{"Why", "KEYS", "ARGV", "Returns", "Repeat", "Cost"}

// A text is a script taken apart.
type text struct {
	name, flags, purpose string
	header               map[string]string // by part, its lines joined
	order                []string          // the parts as they stand
	block, rest          string            // the locals right after the header, and what follows
	code                 string            // both, without comments
}

var (
	partLine = regexp.MustCompile(`^-- (Why|KEYS|ARGV|Returns|Repeat|Cost)\b(.*)$`)
	comment  = regexp.MustCompile(`--[^\n]*`)
	quoted   = regexp.MustCompile(`"([a-z_]+)"`)
	literal  = regexp.MustCompile(`'([a-z_]+)'`)
	command  = regexp.MustCompile(`redis\.p?call\(\s*('?)([\w.]+)'?`)
	index    = regexp.MustCompile(`\b(?:KEYS|ARGV)\[\d+\]`)
	deletes  = regexp.MustCompile(`redis\.p?call\('DEL', ([^)]*)\)`)
)

// readScripts are the scripts of this package, and the foreign one, as they are sent: with what they include.
func readScripts(t *testing.T) []text {
	t.Helper()
	names, err := fs.Glob(files, "*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	texts := make([]text, len(names))
	for i, name := range names {
		texts[i] = takeApart(strings.TrimSuffix(name, ".lua"), source(name))
	}
	foreign := foreignScript(t)
	code, _ := foreign.Text(true)
	return append(texts, takeApart(foreign.Name(), code))
}

// foreignScript is the script of another module that includes parts of this package's: the rules for scripts
// are its rules too.
func foreignScript(t testing.TB) *driver.Script {
	t.Helper()
	text, err := os.ReadFile("../contrib/gitlab/recover_gitlab.lua")
	require.NoError(t, err)
	return NewScript("recover_gitlab", string(text))
}

func takeApart(name, source string) text {
	s := text{name: name, header: make(map[string]string)}
	lines := strings.Split(source, "\n")
	s.flags, lines = lines[0], lines[1:]
	s.purpose, lines = lines[0], lines[1:]
	part := ""
	for len(lines) > 0 && strings.HasPrefix(lines[0], "--") {
		if found := partLine.FindStringSubmatch(lines[0]); found != nil {
			part = found[1]
			s.order = append(s.order, part)
			s.header[part] = found[2]
		} else {
			s.header[part] += "\n" + lines[0]
		}
		lines = lines[1:]
	}
	in := 0
	for in < len(lines) && (strings.HasPrefix(lines[in], "local ") || strings.HasPrefix(lines[in], "  ")) {
		in++
	}
	s.block, s.rest = strings.Join(lines[:in], "\n"), strings.Join(lines[in:], "\n")
	s.code = comment.ReplaceAllString(s.block+"\n"+s.rest, "")
	return s
}

// words are the quoted words of a part of the header.
func (s text) words(part string) []string { return firsts(quoted, s.header[part]) }

func firsts(pattern *regexp.Regexp, in string) []string {
	var all []string
	for _, found := range pattern.FindAllStringSubmatch(in, -1) {
		all = append(all, found[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestEveryScriptSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	for _, s := range readScripts(t) {
		require.Regexp(t, `^-- `+s.name+`: \S.*\.$`, s.purpose, "%s.lua", s.name)
		require.Equal(t, parts, s.order, "%s.lua has all parts of a header, once and in order", s.name)
		for _, part := range parts {
			require.NotEmpty(t, strings.TrimSpace(s.header[part]), "%s.lua: %s", s.name, part)
		}
	}
}

func TestEveryScriptIsCalledThroughTheFunctionBesideIt(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	loads := regexp.MustCompile(`\bload\("([^"]*)"\)`)
	var loaded, names []string
	for _, entry := range entries {
		name, isGo := strings.CutSuffix(entry.Name(), ".go")
		if !isGo || strings.HasSuffix(name, "_test") {
			continue
		}
		source, err := os.ReadFile(entry.Name())
		require.NoError(t, err)
		for _, script := range firsts(loads, string(source)) {
			require.Equal(t, name, script, "%s.go loads the script of another file", name)
			loaded = append(loaded, script)
		}
	}
	for _, s := range readScripts(t) {
		names = append(names, s.name)
	}
	require.ElementsMatch(t, names, append(loaded, foreignScript(t).Name()))
}

func TestOnlyWhatIsNewIsRefusedByAFullRedis(t *testing.T) {
	t.Parallel()
	for _, s := range readScripts(t) {
		want := "#!lua flags=allow-oom"
		news := []string{"tick", "statistics", "sample", "batch_new", "limit"} // these and the pushes store new things
		if strings.HasPrefix(s.name, "push") || slices.Contains(news, s.name) {
			want = "#!lua"
		}
		require.Equal(t, want, s.flags, "%s.lua", s.name)
	}
}

func TestKeysAndArgumentsAreNamedBeforeTheyAreUsed(t *testing.T) {
	t.Parallel()
	for _, s := range readScripts(t) {
		require.Empty(t, index.FindAllString(comment.ReplaceAllString(s.rest, ""), -1),
			"%s.lua: name it in the block of locals after the header", s.name)
	}
}

// statusWords are the words that a script's header may say it returns: Go's constants, or what Go reads.
var statusWords = map[string][]string{
	"take":             {string(WhyEnough), string(WhyBytes), string(WhyEmpty), string(WhyFenced), string(WhyQuarantine)},
	"take_quarantined": {string(QuarantineTaken), string(QuarantineEmpty), string(QuarantineBusy), string(QuarantineFenced)},
	"drain":            {"held", "busy"},
	"settle":           {string(SettleSettled), string(SettleRefused)},
	"heartbeat":        {string(StateAlive), string(StateDead), string(StateUnknown), string(StateUnrecorded)},
	"recover":          {string(StateAlive), string(StateUnknown), "recovered"},
	"recover_gitlab":   {string(StateAlive), "recovered"},
	"register":         {"registered", "taken"},
	"deregister":       {"left"},
	"announce":         {"announced", "dead"},
	"serve":            {string(ServeServed), string(ServeGone), string(ServeStale), string(ServeBusy)},
	"lease":            {"held", "busy", "free"},
	"forget":           {"forgotten", "kept"},
	"push":             {PushStored, PushStale},
	"kill_large":       {"dead", "gone"},
	"due":              nil,
	"promote":          nil,
	"promote_large":    {"promoted", "gone"},
	"statistics":       nil,
	"sample":           {"added", "early"},
	"start":            {"started"},
	"push_unique":      {PushStored, PushStale, PushOver},
	"batch_nested":     {"counted", "gone"},
	"batch_new":        {string(BatchNew), string(BatchOpen), string(BatchOver), string(BatchOrphan)},
	"batch_remove":     nil,
	"batch_seal":       {"sealed", "unknown"},
	"batch_drop":       {string(DropDropped), string(DropKept), string(DropGone)},
	"renew":            nil,
	"admit":            nil,
	"heads":            nil,
	"gate_count":       {string(CountCounted), string(CountMany), string(CountStarted)},
	"lapse":            nil,
	"free_slots":       nil,
	"free_leases":      nil,
	"acquire":          {"held", "busy", "lost", "free"},
	"limit":            {string(LimitStored), string(LimitSame), string(LimitKept), string(LimitUnknown), string(LimitRemoved)},
	"save":             {string(SaveSaved), string(SaveLost), string(SaveStale), string(SaveCancelled)},
	"release":          {"released", "free"},
	"unlist":           nil,
	"up":               nil,
	"entries":          nil,
	"presence":         nil,
	"lapsed":           nil,
	"lengths":          nil,
	"page":             nil,
	"page_after":       nil,
	"act":              nil,
	"signal":           {"sent", "unknown"},
	"shard":            nil,
	"mark":             nil,
	"class_rule":       {string(ClassRuleStored), string(ClassRuleSame), string(ClassRuleRemoved), string(ClassRuleUnknown)},
	"unmark":           nil,
	"define":           {DefineStored, DefineSame, DefineKept, DefineDue},
	"undefine":         {UndefineRemoved, UndefineUnknown, UndefineRegistered},
	"tick":             {TickEnqueued, TickRefused, TickWaits, TickPlanned, TickEarly, TickStale},
}

func TestStatusWordsAreThoseThatGoReads(t *testing.T) {
	t.Parallel()
	for _, s := range readScripts(t) {
		want, known := statusWords[s.name]
		require.True(t, known, "%s.lua: add its status words", s.name)
		require.ElementsMatch(t, want, s.words("Returns"), "%s.lua", s.name)
		words := firsts(literal, s.code)
		for _, word := range want {
			require.Contains(t, words, word, "%s.lua never says it", s.name)
		}
	}
}

func TestExitsAreThoseOfAJob(t *testing.T) {
	t.Parallel()
	for _, s := range readScripts(t) {
		switch s.name {
		case "settle":
			require.ElementsMatch(t, []string{
				string(job.ExitDone), string(job.ExitRetry), string(job.ExitDead), string(job.ExitDiscarded),
				string(job.ExitCancelled), string(job.ExitExpired), string(job.ExitSnoozed), string(job.ExitRequeued), string(job.ExitWaits),
				string(exitLast),
			}, s.words("ARGV"))
		case "recover":
			require.ElementsMatch(t, []string{"working", "quarantined", string(HomeQueue), string(HomeQuarantine), string(HomeDead)}, s.words("ARGV"))
		case "act":
			require.ElementsMatch(t, []string{
				"set", "list", "waiting", string(DestinationQueue), string(DestinationDead), string(DestinationNone), string(DestinationTime), string(DestinationSame),
			}, s.words("ARGV"))
		case "page":
			require.ElementsMatch(t, []string{
				string(OrderOldest), string(OrderYoungest), string(OrderLowest), string(OrderHighest),
			}, s.words("ARGV"))
		}
	}
}

func TestKindsOfBelongingsAreThoseThatGoNames(t *testing.T) {
	t.Parallel()
	kinds := regexp.MustCompile(`(?m)^kinds\.(\w+) =`)
	want := []string{
		string(lockFree), string(lockHold), (&JobState{}).part("").name,
		string(MemberDone), string(MemberFailed), string(MemberDied), string(MemberRemoved), string(MemberRevived),
		string(slotFree), string(slotKeep), string(slotWait), string(slotLeave), string(slotRevoke), (&Waits{}).part("").name, (&NextJobs{}).part("").name,
	}
	for _, s := range readScripts(t) {
		if found := firsts(kinds, s.code); s.name == "act" {
			require.ElementsMatch(t, append(want, string(lockTake), string(lockNeed)), found)
		} else if len(found) > 0 {
			require.ElementsMatch(t, want, found, "%s.lua", s.name)
		}
	}
}

// harmless are the commands that a script may use: none whose work grows with what Redis holds beside the job
// at hand, none that decides by what it finds under names it was not given, none that blocks.
var harmless = []string{
	"TIME", "TYPE", "EXISTS", "EXPIRE", "PEXPIRE", "PTTL", "DEL", "UNLINK", "PUBLISH", "PUBSUB", "GET", "MGET", "SET", "SETRANGE", "INCRBY",
	"HSET", "HGET", "HMGET", "HEXISTS", "HDEL", "HSETNX", "HINCRBY", "BITFIELD", "SADD", "SREM", "SCARD", "SISMEMBER", "SMISMEMBER",
	"HLEN", "HRANDFIELD", "HVALS", "LLEN", "LINDEX", "LPOS", "LRANGE", "LMOVE", "LREM", "LSET", "LPUSH", "RPUSH", "LPOP", "RPOP",
	"ZADD", "ZREM", "ZSCORE", "ZMSCORE", "ZCARD", "ZCOUNT", "ZRANK", "ZRANGE", "ZREVRANGE", "ZRANGEBYSCORE", "ZREMRANGEBYRANK", "ZREMRANGEBYSCORE",
}

func TestScriptsUseHarmlessCommandsOnly(t *testing.T) {
	t.Parallel()
	for _, s := range readScripts(t) {
		for _, found := range command.FindAllStringSubmatch(s.code, -1) {
			require.NotEmpty(t, found[1], "%s.lua computes the name of a command: %s", s.name, found[2])
			require.Contains(t, harmless, found[2], "%s.lua", s.name)
		}
		code := s.code
		if s.name == "kill_large" { // it makes a JSON string of a text that is none
			code = strings.ReplaceAll(code, "cjson.encode(entry)", "")
		}
		for _, word := range []string{"cjson", "cmsgpack", "setresp", "struct.", "loadstring", "redis.log"} {
			require.NotContains(t, code, word, "%s.lua: a job is its bytes, and every reply has one shape", s.name)
		}
	}
}

func TestNothingThatHoldsJobsIsEverDeleted(t *testing.T) {
	t.Parallel()
	for _, s := range readScripts(t) {
		for _, keys := range firsts(deletes, s.code) {
			for key := range strings.SplitSeq(keys, ", ") {
				require.Contains(t, []string{"hash", "work", "workers", "record", "lock", "lease", "unpack(freed", "runs", "state", "g.rate"}, key, "%s.lua", s.name)
			}
		}
	}
}

// Scripts cannot share a function, so what several need must at least be the same text.
func TestSharedFunctionsAreTheSame(t *testing.T) {
	t.Parallel()
	functions := regexp.MustCompile(`(?ms)^local function (\w+)\(.*?^end$`)
	first := make(map[string]string)
	for _, s := range readScripts(t) {
		for _, found := range functions.FindAllStringSubmatch(s.code, -1) {
			if first[found[1]] == "" {
				first[found[1]] = found[0]
			}
			require.Equal(t, first[found[1]], found[0], "%s.lua", s.name)
		}
	}
}
