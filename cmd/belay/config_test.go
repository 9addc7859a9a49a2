package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/internal/drivertest"
)

// configFile writes a configuration file into a directory of the test's own.
func configFile(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "belay.yml")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}

// printed is what --print-config shows, and where each comes from, line by line.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	answer := invoke("", append([]string{"work", "--print-config"}, args...)...)
	require.Zero(t, answer.code, answer.errs)
	return answer.out
}

func TestConfigFile(t *testing.T) {
	t.Parallel()
	t.Run("accepts_Sidekiqs_keys", func(t *testing.T) {
		t.Parallel()
		shown := printed(t, "--environment", "production", "--config", configFile(t,
			":concurrency: 5", ":timeout: 8", ":max_retries: 0", ":labels: [a, b]",
			":queues:", "  - :critical", "  - [high, 3]", "  - low: 2", "    lower: 1", "  - mid,4",
			":capsules:", "  unsafe:", "    :concurrency: 1", "    :queues: {thumbs: 2}", "  slow: {queues: [slow]}",
			"exec:", "  Mail::Welcome: sh -c 'true'", `  "*": "true"`,
			"production:", "  :concurrency: 50", "staging:", "  concurrency: 10"))
		for _, line := range []string{
			"concurrency: 50 # FILE:20", "timeout: 8s # FILE:2", "max_retries: 0 # FILE:3", "labels: [a, b] # FILE:4",
			"queues: [critical, [high, 3], [low, 2], [lower, 1], [mid, 4]] # FILE:5", "  unsafe: {concurrency: 1, queues: [[thumbs, 2]]}",
			"  slow: {queues: [slow]}", "  Mail::Welcome: sh -c 'true'", `  '*': "true"`, "heartbeat: 1.5s # default",
		} {
			pattern := strings.ReplaceAll(regexp.QuoteMeta(line), "FILE", `\S+belay\.yml`)
			require.Regexp(t, `(?m)^`+pattern+`$`, shown)
		}
	})
	t.Run("printed_settings_can_be_read_back", func(t *testing.T) {
		t.Parallel()
		once := printed(t, "--config", configFile(t, "queues: {a: 1, b: 2}", "heartbeat: 2", `tag: "12"`, `name: ":x #y"`, "ttl: 20s",
			"capsules: {c: {queues: [d]}}", "exec: {A: 'sh -c \"a=b\"', B: \"sh\\n -c x\", C: {timeout: 90, command: sh -c x}}", "log_level: warn",
			"job_timeout: 5m"))
		require.Contains(t, once, "\n  C: {command: sh -c x, timeout: 90s}\n")
		path := filepath.Join(t.TempDir(), "again.yml")
		require.NoError(t, os.WriteFile(path, []byte(once), 0o600))
		comments := regexp.MustCompile(`(?m) # \S*$|^# .*$`)
		require.Equal(t, comments.ReplaceAllString(once, ""), comments.ReplaceAllString(printed(t, "--config", path), ""))
	})
	t.Run("merges_and_aliases_work_as_in_YAML", func(t *testing.T) {
		t.Parallel()
		shown := printed(t, "--config", configFile(t, "base: &base", "  concurrency: 7", "  tag: x", "development:", "  <<: *base", "  tag: y"))
		require.Contains(t, shown, "concurrency: 7 #")
		require.Contains(t, shown, `tag: "y" #`)
	})
	t.Run("Sidekiqs_poll_interval_is_read_as_poll", func(t *testing.T) {
		t.Parallel()
		require.Regexp(t, `poll: 2s # \S+belay\.yml:1`, printed(t, "--config", configFile(t, ":average_scheduled_poll_interval: 2", "poll_wait: 5")))
		require.Regexp(t, `poll: 3s # \S+belay\.yml:2`, printed(t, "--config", configFile(t, ":average_scheduled_poll_interval: 2", ":poll_interval_average: 3")))
		require.Regexp(t, `poll: 1s # \S+belay\.yml:2`, printed(t, "--config", configFile(t, "poll_interval_average: 3", "poll: 1s")))
		require.Regexp(t, `poll: 1s # \S+belay\.yml:2`, printed(t, "--config", configFile(t, "average_scheduled_poll_interval: 2", "poll: 1s")))
	})
	t.Run("poll_off_leaves_due_jobs_to_Ruby", func(t *testing.T) {
		t.Parallel()
		shown := printed(t, "--config", configFile(t, "poll: off"))
		require.Regexp(t, `poll: "?off"? # \S+belay\.yml:1`, shown)
		require.Regexp(t, `poll: "?off"? # `, printed(t, "--config", configFile(t, shown)), "what it prints can be read")
		require.Contains(t, printed(t, "--poll", "off"), "off")
	})
	t.Run("an_empty_file_means_the_defaults", func(t *testing.T) {
		t.Parallel()
		require.Contains(t, printed(t, "--config", configFile(t, "# nothing yet")), "concurrency: 25 # default")
	})
	t.Run("all_mistakes_are_reported_at_once_with_their_lines", func(t *testing.T) {
		t.Parallel()
		path := configFile(t,
			"concurency: 5",              // 1
			"concurrency: many",          // 2
			":timeout: [1]",              // 3
			"tag: 12",                    // 4
			"tag: again",                 // 5
			"queues: [[a, 0], {b: x}]",   // 6
			"# nothing",                  // 7
			"capsules:",                  // 8
			"  c: {queues: 5, speed: 1}", // 9
			"  d: {concurrency: 0}",      // 10
			"exec: {A=B: x, C: {timeout: soon, shell: sh}}", // 11
			"qa:",         // 12
			"  nosuch: 1", // 13
			"redis: 5",    // 14
			"labels: a",   // 15
		)
		answer := invoke("", "work", "--config", path, "-c", "0", "--exec", "A=true")
		require.Equal(t, exitUsage, answer.code)
		require.Equal(t, 1, strings.Count(answer.errs, "\n"))
		for _, part := range []string{
			`belay.yml:1: "concurency" is not a setting; the settings are redis, prefix, queues, concurrency,`, "belay.yml:2: concurrency: it must be a whole number, not text",
			"belay.yml:3: timeout: it must be a duration such as 1500ms, or seconds, not a list", "belay.yml:4: tag: it must be text (in quotes",
			"belay.yml:5: tag was set in line 4 already", "belay.yml:6: queues: it must be a name, [name, weight]",
			"belay.yml:9: capsule c: queues: it must be a list", `belay.yml:9: capsule c: "speed" is not a setting of a capsule`,
			"belay.yml:10: capsule d: concurrency: it must be a whole number of 1 or more", "belay.yml:11: exec: it must be a class name without =",
			"belay.yml:11: exec C: timeout: it must be a duration such as 1500ms, or seconds, not text",
			`belay.yml:11: exec C: "shell" is not a setting of a program; the settings are command, timeout`,
			`belay.yml:13: "nosuch" is not a setting (in "qa", taken for the section of an environment)`, "belay.yml:14: redis: it must be text",
			"belay.yml:15: labels: it must be a list, not text", "--concurrency 0",
		} {
			require.Contains(t, answer.errs, part)
		}
	})
	t.Run("an_invalid_value_is_reported_with_its_line", func(t *testing.T) {
		t.Parallel()
		path := configFile(t, "heartbeat: 0", "log_level: loud", "queues: ['a,b']", "capsules: {x: {queues: [q]}, y: {queues: [q]}, z: {}}",
			"exec: {A: /nowhere/a}", "client: jedis", "max_retries: -1")
		answer := invoke("", "work", "--config", path)
		require.Equal(t, exitUsage, answer.code)
		for _, part := range []string{
			"belay.yml:1: heartbeat 0", `belay.yml:2: log_level "loud"`, "belay.yml:3: queues: it must be a name", `queue "q" is in the capsules "x" and "y"`,
			`capsule "z": it has no queues`, `belay.yml:5: exec A: there is no program "/nowhere/a"`, `belay.yml:6: client "jedis"`, "belay.yml:7: max_retries -1",
		} {
			require.Contains(t, answer.errs, part)
		}
	})
	t.Run("a_file_that_is_not_YAML_is_reported", func(t *testing.T) {
		t.Parallel()
		for problem, lines := range map[string][]string{
			"belay.yml: line":                                                 {"a: 1", "b: [", "c"},
			"belay.yml:1: this ERB is not supported":                          {"concurrency: <%= `nproc` %>"},
			"belay.yml:2: the variable NOT_SET_ANYWHERE is not set":           {"tag: x", "concurrency: <%= ENV.fetch('NOT_SET_ANYWHERE') %>"},
			"a second document begins":                                        {"concurrency: 1", "---", "concurrency: 2"},
			"belay.yml:1: settings: it must be keys with values, not a list":  {"- concurrency"},
			"belay.yml:2: capsules: it must be keys with values, not a list":  {"tag: a", "capsules: [1]"},
			"belay.yml:1: capsule x: it must be keys with values, not a list": {"capsules: {x: [q]}"},
		} {
			answer := invoke("", "work", "--config", configFile(t, lines...), "--exec", "A=true")
			require.Equal(t, exitUsage, answer.code, lines)
			require.Contains(t, answer.errs, problem)
		}
		answer := invoke("", "work", "--config", "/nowhere/belay.yml", "--exec", "A=true")
		require.Equal(t, exitUsage, answer.code)
		require.Contains(t, answer.errs, "no such file")
	})
}

// What Sidekiq reads in a file, Belay reads in it too, and names in one warning what it does not have.
func TestOneFileServesSidekiqAndBelay(t *testing.T) {
	path := configFile(t,
		"---", ":verbose: true", ":pidfile: tmp/pids/sidekiq.pid", ":strict: false", ":concurrency: <%= ENV.fetch('WIDTH', 10).to_i %>",
		":timeout: <%= ENV['NOT_SET_ANYWHERE'] || 30 %>", ":max_retries: <%= Integer(ENV.fetch(\"NOT_SET_ANYWHERE\") { 7 }) %>", ":tag: <%= ENV['TAG_OF_IT'] %>",
		"# <%= 1 %>", ":queues:", "  - [<%= ENV['NOT_SET_ANYWHERE'] || 'critical' %>, 3]", "  - :default", ":scheduler:", "  :dynamic: true", "  :schedule:",
		"    nightly:", "      cron: '0 3 * * *'", ":limits:", "  default: 5", "production:", "  :concurrency: 50", "exec:", "  Welcome: 'true'")
	t.Setenv("WIDTH", "12")
	t.Setenv("TAG_OF_IT", "blue")
	shown := printed(t, "--config", path)
	for _, line := range []string{"concurrency: 12 #", "timeout: 30s #", "max_retries: 7 #", "tag: blue #", "queues: [[critical, 3], default] #", "log_level: debug #"} {
		require.Contains(t, shown, line)
	}
	_, _, notes, err := readConfigFile(path, "development")
	require.NoError(t, err)
	require.Len(t, notes, 2)
	require.Contains(t, notes[0], `name Belay's queues in a section "belay"`)
	notes = notes[1:]
	for _, part := range []string{"ignored, because belay has no such settings: pidfile in line 3: ", "; strict in line 4", "; scheduler in line 13: use belay periodic add", "; limits in line 18"} {
		require.Contains(t, notes[0], part)
	}
	out, err := exec.Command("ruby", "-W0", "-rsidekiq/cli", "-rjson", "-e",
		`cli = Sidekiq::CLI.instance; cli.parse(["-C", ARGV[0], "-r", ARGV[0]]); puts JSON.generate(Sidekiq.options.slice(:concurrency, :timeout, :max_retries, :tag, :queues))`, path).Output()
	require.NoError(t, err, "apt-get install ruby-sidekiq")
	require.JSONEq(t, `{"concurrency":12,"timeout":30,"max_retries":7,"tag":"blue","queues":["critical","critical","critical","default"]}`, string(out))
}

// Belay's own section overrides what it shares with Ruby, above all the queues, and Sidekiq does not read it.
func TestBelaysOwnSectionOfASharedFile(t *testing.T) {
	t.Parallel()
	path := configFile(t, ":concurrency: 5", ":queues: [mail, default]", ":strict: false", "production:", "  :concurrency: 50",
		"belay:", "  queues: [go_mail]", "  tag: go", "  poll: 2s")
	values, sections, notes, err := readConfigFile(path, "production")
	require.NoError(t, err)
	require.Equal(t, []belay.QueueWeight{{Name: "go_mail"}}, values["queues"].queues)
	require.Equal(t, []string{"50"}, values["concurrency"].words)
	require.Equal(t, []string{"go"}, values["tag"].words)
	require.Equal(t, []string{"production"}, sections, "it is not an environment")
	require.Len(t, notes, 1, "only the settings that Belay does not have")
	out, err := exec.Command("ruby", "-W0", "-rsidekiq/cli", "-rjson", "-e",
		`cli = Sidekiq::CLI.instance; cli.parse(["-C", ARGV[0], "-r", ARGV[0], "-e", "production"]); puts JSON.generate(Sidekiq.options.slice(:concurrency, :queues, :strict))`, path).Output()
	require.NoError(t, err, "apt-get install ruby-sidekiq")
	require.JSONEq(t, `{"concurrency":50,"queues":["mail","default"],"strict":true}`, string(out), "Sidekiq ignores strict, too")
	require.Contains(t, notes[0], "strict in line 3: queues without weights are strict, as in Sidekiq, which ignores this key too")

	_, _, _, err = readConfigFile(configFile(t, "belay: {queuse: [a]}"), "")
	require.ErrorContains(t, err, `"queuse" is not a setting (in the section "belay")`)
}

// Settings of Sidekiq 7 and 8 that Belay does not have are named in one warning, and stop no worker.
func TestSettingsOfSidekiq7And8AreNamedInOneWarning(t *testing.T) {
	t.Parallel()
	keys := []string{"max_iteration_runtime", "logged_job_attributes", "skip_default_job_logging", "on_complex_arguments", "redis_idle_timeout", "iteration"}
	lines := []string{"max_iteration_runtime: 60", "logged_job_attributes: [bid, tags]", "skip_default_job_logging: true", ":on_complex_arguments: :raise",
		"redis_idle_timeout: 10", "iteration:", "  max_job_runtime: 60"}
	_, sections, notes, err := readConfigFile(configFile(t, lines...), "")
	require.NoError(t, err)
	require.Empty(t, sections)
	require.Len(t, notes, 1)
	for n, key := range keys {
		require.Contains(t, notes[0], fmt.Sprintf("%s in line %d: ", key, n+1))
	}
}

// A mistyped environment would apply the wrong settings unnoticed.
func TestAnEnvironmentWithoutASectionIsReported(t *testing.T) {
	path := configFile(t, "concurrency: 1", "staging: {concurrency: 2}", "production: {concurrency: 3}")
	const message = `has no section "prodution", only production, staging`
	require.Contains(t, invoke("", "work", "--config", path, "--print-config", "-e", "prodution").errs, message)
	require.Empty(t, invoke("", "work", "--config", path, "--print-config", "-e", "production").errs)
	require.Empty(t, invoke("", "work", "--config", path, "--print-config").errs)
	require.Empty(t, invoke("", "work", "--config", configFile(t, "concurrency: 1"), "--print-config", "-e", "prodution").errs, "one for all")
	t.Setenv("APP_ENV", "test")
	require.Empty(t, invoke("", "work", "--config", path, "--print-config").errs)
	t.Setenv("BELAY_ENVIRONMENT", "prodution")
	require.Contains(t, invoke("", "work", "--config", path, "--print-config").errs, message)
}

func TestAPasswordInTheUsersPlaceIsHidden(t *testing.T) {
	t.Parallel()
	shown := invoke("", "work", "--print-config", "--redis", "redis://SECRET@h:1/0").out
	require.Contains(t, shown, "# redis: redis://hidden@h:1/0 # --redis")
	require.NotContains(t, shown, "SECRET")
}

func TestFlagsOverrideTheEnvironmentWhichOverridesTheFile(t *testing.T) {
	path := configFile(t, "concurrency: 1", "queues: [file]", "tag: file", "redis: redis://:SECRET@file:1/0", "prefix: file", "exec: {A: 'true'}")
	t.Setenv("BELAY_CONFIG", path)
	t.Setenv("BELAY_CONCURRENCY", "2")
	t.Setenv("BELAY_QUEUES", "env,2 other")
	t.Setenv("BELAY_PREFIX", "env")
	t.Setenv("BELAY_REDIS_URL", "")
	t.Setenv("REDIS_URL", "")
	shown := printed(t, "-c", "3")
	for _, line := range []string{"concurrency: 3 # --concurrency", "queues: [[env, 2], other] # BELAY_QUEUES", "prefix: env # BELAY_PREFIX"} {
		require.Contains(t, shown, line)
	}
	require.Regexp(t, `tag: file # \S+belay.yml:3`, shown)
	require.Regexp(t, `# redis: redis://:hidden@file:1/0 # \S+belay.yml:4`, shown)
	require.NotContains(t, shown, "SECRET")

	t.Setenv("REDIS_URL", "redis://env:1/0")
	require.Contains(t, printed(t), "redis: redis://env:1/0 # REDIS_URL")
	t.Setenv("BELAY_TTL", "soon")
	answer := invoke("", "work")
	require.Equal(t, exitUsage, answer.code)
	require.Contains(t, answer.errs, "BELAY_TTL \"soon\": it must be a duration, such as 1500ms")
}

func TestBELAY_PREFIXAppliesToAllCommands(t *testing.T) {
	h := newHouse(t)
	t.Setenv("BELAY_PREFIX", h.prefix)
	require.Zero(t, invoke("", "push", "A", "--redis", h.server.URL()).code)
	require.Equal(t, int64(1), h.do("LLEN", h.key("queue:default")))
}

func TestPasswordsInAFileAreNeverPrinted(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://:SECRET@127.0.0.1:1/0", "redis://u:SECRET#1@127.0.0.1:1/0", "redis://:12?SECRET@h", "redis://h?password=SECRET", "://:SECRET@h", "redis://:SE%zzCRET@h", "redis:SECRET@h",
	} {
		path := configFile(t, "redis: '"+url+"'", "nosuch: 1")
		answer := invoke("", "work", "--config", path, "--exec", "A=true")
		require.Equal(t, exitUsage, answer.code)
		require.NotRegexp(t, "SECRET|SE%zzCRET", answer.out+answer.errs)
		path = configFile(t, "redis: '"+url+"'")
		answer = invoke("", "work", "--config", path, "--print-config")
		require.NotRegexp(t, "SECRET|SE%zzCRET", answer.out+answer.errs, url)
	}
}

func TestAWarningNamesAPasswordThatEveryUserCanRead(t *testing.T) {
	t.Parallel()
	warned := func(mode os.FileMode, line string) string {
		path := configFile(t, line)
		require.NoError(t, os.Chmod(path, mode))
		answer := invoke("", "work", "--print-config", "--config", path)
		require.Zero(t, answer.code, answer.errs)
		require.NotContains(t, answer.errs, "SECRET")
		return answer.errs
	}
	require.Contains(t, warned(0o644, "redis: redis://:SECRET@h:1/0"), "every user of this machine can read the password of Redis in ")
	require.Empty(t, warned(0o640, "redis: redis://:SECRET@h:1/0"))
	require.Empty(t, warned(0o644, "redis: redis://h:1/0"), "there is no password in it")
	require.Empty(t, warned(0o644, "concurrency: 3"))
}

func TestAnEmptyURLInAFileIsRefused(t *testing.T) {
	t.Parallel()
	answer := invoke("", "work", "--exec", "A=true", "--config", configFile(t, `redis: ""`))
	require.Equal(t, exitUsage, answer.code)
	require.Contains(t, answer.errs, "the URL is empty")
}

func TestEverySettingIsInTheHelp(t *testing.T) {
	t.Parallel()
	help := invoke("", "work", "--help").out
	flags := newWork(&redisFlags{}).Flags()
	at := &redisFlags{}
	at.register(flags)
	for _, s := range settings {
		require.Contains(t, help, s.key)
		require.Contains(t, help, s.variable)
		if s.flag != "" {
			require.NotNil(t, flags.Lookup(s.flag), s.flag)
		}
	}
}

func TestWorkWithAConfigFile(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	path := configFile(t, "average_scheduled_poll_interval: 0.2", "queues: [mail]", "capsules: {unsafe: {concurrency: 1, queues: [unsafe]}}", "exec:", "  A: sh -c 'echo $BELAY_QUEUE >$BELAY_QUEUE'", "timeout: 5")
	w := h.startWorker(t, "--config", path)
	h.push("A", "-q", "mail")
	h.push("A", "-q", "unsafe")
	require.Equal(t, "mail\n", w.awaitFile("mail"))
	require.Equal(t, "unsafe\n", w.awaitFile("unsafe"))
	drivertest.Eventually(t, func() bool { return h.do("SCARD", h.key("processes")) == int64(1) }, soon, 5*time.Millisecond)
	w.signal(os.Interrupt)
	require.Zero(t, w.awaitEnd())
	w.awaitLog("average_scheduled_poll_interval is read as poll")
}

// Each level of nested merges multiplies the number of merged mappings.
func TestNestedMergesDoNotExhaustTheMemory(t *testing.T) {
	t.Parallel()
	const nested = 8
	lines := []string{"a0: &a0 {concurrency: 1}"}
	for level := 1; level < nested; level++ {
		parents := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", level-1), 30), ",")
		lines = append(lines, fmt.Sprintf("a%d: &a%d {<<: [%s]}", level, level, parents))
	}
	began := time.Now()
	answer := invoke("", "work", "--print-config", "--config", configFile(t, append(lines, fmt.Sprintf("<<: *a%d", nested-1))...))
	require.Equal(t, exitUsage, answer.code)
	require.Contains(t, answer.errs, "this file merges mappings (<<) more than 1000 times: write the settings out")
	require.Less(t, time.Since(began), soon)
	answer = invoke("", "work", "--print-config", "--config", configFile(t, "own: &own {<<: *own}"))
	require.Equal(t, exitUsage, answer.code)
	require.Contains(t, answer.errs, "this file merges mappings (<<) more than 1000 times", "a mapping that merges itself")
}

func TestPrintedSettingsIncludeThoseThatFollowFromOthers(t *testing.T) {
	t.Parallel()
	shown := printed(t, "--heartbeat", "2s")
	for _, line := range []string{"ttl: 8s # default\n", "janitor: 2s # default\n", "poll_wait: 0s # default\n"} {
		require.Contains(t, shown, line)
	}
}
