package examples_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/internal/drivertest"
)

// guides are the documents whose pieces of Go are compiled.
var guides = []string{
	"from-sidekiq.md", "from-asynq.md", "ruby.md", "encryption.md", "together.md",
	"batches.md", "limits.md", "periodic.md", "scaling.md", "operations.md",
}

// guideStubs declare what a guide's pieces take from the reader's own program.
var guideStubs = map[string]string{
	"limits.md": "func geocode(context.Context, string) error { return nil }",
	"operations.md": `
var Welcome = belay.Define[int64]("WelcomeEmail", belay.Idempotent())

func sendWelcome(context.Context, int64) error { return nil }`,
}

// What the pieces of Go in guides may use besides what they declare.
const guideImports = `package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/activejob"
	"github.com/belayq/belay/belaytest"
	belayotel "github.com/belayq/belay/contrib/otel"
	"github.com/belayq/belay/driver/goredisdriver"
)

var (
	_ context.Context
	_ json.RawMessage
	_ = errors.Is
	_ = flag.Parse
	_ = fmt.Println
	_ iter.Seq[int]
	_ = os.Getenv
	_ = rand.Text
	_ testing.TB
	_ time.Time
	_ belay.RawJob
	_ activejob.Envelope
	_ *belaytest.Kit
	_ belayotel.Config
	_ = slices.Sort[[]int]
	_ = goredisdriver.Open
)
`

// All pieces of a guide are one program: a reader who copies them has one that compiles. Those that begin
// with "// asynq" are asynq's code; those that declare nothing are the inside of a function. Their jobs are
// as belayvet wants them, too.
func TestTheGoInGuidesCompiles(t *testing.T) {
	t.Parallel()
	vet := filepath.Join(t.TempDir(), "belayvet")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../cmd/belayvet", "-o", vet, ".").CombinedOutput()
	require.NoError(t, err, string(output))
	for _, guide := range guides {
		program := guideImports + "\n" + guideStubs[guide] + "\n"
		for _, piece := range pieces(t, guide) {
			if strings.HasPrefix(strings.TrimSpace(piece), "// asynq") {
				continue
			}
			if _, err := parser.ParseFile(token.NewFileSet(), guide, "package main\n"+piece, 0); err != nil {
				piece = "func _(ctx context.Context, client *belay.Client, server *belay.Server) {\n" + piece + "}\n"
			}
			program += "\n" + piece
		}
		if !strings.Contains(program, "func main()") {
			program += "\nfunc main() {}\n"
		}
		file := filepath.Join(t.TempDir(), "guide.go")
		require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
		output, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput()
		require.NoError(t, err, "%s: %s\nof:\n%s", guide, output, withLineNumbers(program))
		output, err = exec.CommandContext(t.Context(), "go", "vet", "-vettool="+vet, file).CombinedOutput()
		require.NoError(t, err, "%s: %s\nof:\n%s", guide, output, withLineNumbers(program))
	}
}

// Each piece of Go in the README is a file: a program, or a part of the package shop, with its test.
func TestTheGoInTheReadmeRuns(t *testing.T) {
	t.Parallel()
	var shop []string
	folder := t.TempDir()
	for i, piece := range pieces(t, "../README.md") {
		name := fmt.Sprintf("piece%d.go", i)
		if strings.Contains(piece, `"testing"`) {
			name = fmt.Sprintf("piece%d_test.go", i)
		}
		file := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(file, []byte(piece), 0o600))
		if strings.HasPrefix(piece, "package shop\n") {
			shop = append(shop, file)
			continue
		}
		require.True(t, strings.HasPrefix(piece, "package main\n"), piece)
		output, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput()
		require.NoError(t, err, "%s\nof:\n%s", output, withLineNumbers(piece))
	}
	output, err := exec.CommandContext(t.Context(), "go", append([]string{"test", "-v"}, shop...)...).CombinedOutput()
	require.NoError(t, err, string(output))
	require.Contains(t, string(output), "--- PASS")
}

// The first program warns of nothing on a Redis that is as the README says, ends at Control-C, and at a second
// one although a handler does not return.
func TestTheFirstProgramOfTheReadme(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t, "--appendonly", "yes")
	first := strings.ReplaceAll(pieces(t, "../README.md")[0], "redis://localhost:6379/0", redis.URL())
	stuck := strings.Replace(first, `fmt.Println("welcome, user", args.UserID)`, `fmt.Println("welcome, user", args.UserID); select {}`, 1)
	require.NotEqual(t, first, stuck)
	for name, text := range map[string]string{"first": first, "stuck": stuck} {
		file, program := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, file).CombinedOutput()
		require.NoError(t, err, string(output))
		p := startProcess(t, redis, program)
		eventually(t, "the job", func() bool { return strings.Contains(p.out.String(), "welcome, user 42") })
		for line := range strings.Lines(p.out.String()) {
			warned := regexp.MustCompile(`"level":"(warn|error)"`).MatchString(line)
			slow := strings.Contains(line, `"check":"latency"`) // of a busy machine, not of the program
			require.False(t, warned && !slow, line)
		}
		interrupted := time.Now()
		p.signal(syscall.SIGINT)
		if name == "stuck" {
			eventually(t, "the stop", func() bool { return strings.Contains(p.out.String(), "SIGINT") })
			time.Sleep(300 * time.Millisecond) // GNU timeout sends two at once; a person does not
			p.signal(syscall.SIGINT)
		}
		require.NoError(t, <-p.done)
		require.Less(t, time.Since(interrupted), 20*time.Second, "well before the shutdown timeout of 25 s")
	}
}

// The first program needs another URL, and on a Cluster a prefix, and nothing else.
func TestTheFirstProgramWithSentinelAndCluster(t *testing.T) {
	t.Parallel()
	first := pieces(t, "../README.md")[0]
	watched, cluster := drivertest.StartSentinel(t), drivertest.StartCluster(t, 3)
	for name, opened := range map[string]string{
		"sentinel": fmt.Sprintf("%q, nil", watched.URL()),
		"cluster":  fmt.Sprintf("%q, &belay.ClientConfig{Prefix: %q}", cluster.URL(), "{shop}"),
	} {
		text := strings.Replace(first, `"redis://localhost:6379/0", nil`, opened, 1)
		require.NotEqual(t, first, text)
		file, program := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, file).CombinedOutput()
		require.NoError(t, err, string(output))
		p := startProcess(t, watched.Servers[0], program)
		eventually(t, "the job", func() bool { return strings.Contains(p.out.String(), "welcome, user 42") })
		p.signal(syscall.SIGINT)
		require.NoError(t, <-p.done)
	}
}

// A reader of any of these documents learns the same: whether there is a version to install.
func TestDocumentsAgreeAboutTags(t *testing.T) {
	t.Parallel()
	untagged := strings.Contains(read(t, "../README.md"), "No version is tagged yet")
	require.Equal(t, untagged, strings.Contains(read(t, "../CHANGELOG.md"), "It has no tag"))
	require.Equal(t, untagged, strings.Contains(read(t, "../contrib/README.md"), "No version is tagged yet"))
	if untagged {
		for _, document := range []string{"../README.md", "../contrib/README.md", "operations.md"} {
			require.NotContains(t, read(t, document), "go get github.com/belayq/belay", "%s: it would find nothing", document)
		}
	}
}

// pieces are a document's blocks of Go.
func pieces(t *testing.T, document string) []string {
	t.Helper()
	var found []string
	for _, match := range regexp.MustCompile("(?ms)^ *```go\n(.*?)^ *```$").FindAllStringSubmatch(read(t, document), -1) {
		found = append(found, match[1])
	}
	require.NotEmpty(t, found, document)
	return found
}

func withLineNumbers(program string) string {
	var text strings.Builder
	for i, line := range strings.Split(program, "\n") {
		fmt.Fprintf(&text, "%4d  %s\n", i+1, line)
	}
	return text.String()
}

func read(t *testing.T, document string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", document))
	require.NoError(t, err)
	return string(text)
}

// sources are the files that say something in a worker's log.
func sources(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, folder := range []string{"..", "../client", "../fetch", "../janitor", "../link", "../lua", "../launcher", "../launcher/service", "../scheduler", "../logbook", "../cmd/belay", "../contrib/gitlab", "../contrib/outbox"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(filepath.Base(file), "demo") {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			found[file] = string(text)
		}
	}
	return found
}

func TestOperationsExplainsEveryLogLine(t *testing.T) {
	t.Parallel()
	operations := read(t, "operations.md")
	line := regexp.MustCompile(`(?:\.(?:Debug|Info|Warn|Error)\(\s*|NewRecord\([^"\n]*|\bmessage :?= )"([^"]+)"`)
	count := 0
	for file, text := range sources(t) {
		for _, match := range line.FindAllStringSubmatch(text, -1) {
			explained := strings.Contains(operations, "`"+match[1]+"`")
			require.True(t, explained, "%s logs %q: explain it in docs/operations.md, section \"The log, line by line\"", file, match[1])
			count++
		}
	}
	require.Greater(t, count, 25, "the search found too few lines")
}

func TestOperationsQuotesLogLinesAsTheyAre(t *testing.T) {
	t.Parallel()
	all := ""
	for _, text := range sources(t) {
		all += text
	}
	rows := regexp.MustCompile("(?m)^\\| (?:error|warn|info|debug) \\| (`[^|]*)\\|").FindAllStringSubmatch(read(t, "operations.md"), -1)
	require.Greater(t, len(rows), 30)
	for _, row := range rows {
		for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			logged := strings.Contains(all, quoted[1])
			require.True(t, logged, "nothing logs %q any more: mend docs/operations.md", quoted[1])
		}
	}
}

func TestOperationsHasEverySetting(t *testing.T) {
	t.Parallel()
	help, err := exec.CommandContext(t.Context(), build(t, "../cmd/belay"), "work", "--help").Output()
	require.NoError(t, err)
	operations := read(t, "operations.md")
	var flags []string
	for _, match := range regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[\w-]+)`).FindAllStringSubmatch(string(help), -1) {
		flags = append(flags, match[1])
		if match[1] != "--help" {
			explained := strings.Contains(operations, "`"+match[1]+"`")
			require.True(t, explained, "belay work has %s: add it to the table in docs/operations.md", match[1])
		}
	}
	require.True(t, slices.Contains(flags, "--ttl"), "%q", flags)
	require.Greater(t, len(flags), 20)
}

// What the docs say about users works as it is written: the user of the worker may do all that workers do, and no
// role is left out.
func TestOperationsRuleForTheUserIsEnough(t *testing.T) {
	t.Parallel()
	text := read(t, "operations.md")
	for _, role := range check.Roles() {
		require.Contains(t, text, "| `"+string(role)+"` | ")
	}
	belay, redis := build(t, "../cmd/belay"), drivertest.Start(t)
	words := strings.Fields(regexp.MustCompile(`(?m)^belay (check --acl .*) \| redis-cli$`).FindStringSubmatch(text)[1])
	rule, err := run(t, redis, "", belay, words...)
	require.NoError(t, err)
	do(t, redis, strings.Fields(rule)...)
	do(t, redis, strings.Fields(strings.ReplaceAll(regexp.MustCompile(`(?m)^redis-cli (ACL SETUSER .*)$`).FindStringSubmatch(text)[1], "'", ""))...)
	output, err := run(t, redis, "", belay, "check", "--prefix", "shop", "--redis", "redis://shop-worker:SECRET@"+redis.Addr())
	require.NoError(t, err, output)
	require.Regexp(t, `(?m)^ok +permissions `, output)
	require.Regexp(t, `(?m)^ok +blocking `, output)
}
