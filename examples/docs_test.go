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
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// guides are the documents whose pieces of Go are compiled.
var guides = []string{"from-sidekiq.md", "from-asynq.md", "ruby.md"}

// What the pieces of Go in guides may use besides what they declare.
const guideImports = `package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/activejob"
	"github.com/belayq/belay/belaytest"
)

var (
	_ context.Context
	_ json.RawMessage
	_ = errors.Is
	_ = flag.Parse
	_ = fmt.Println
	_ iter.Seq[int]
	_ testing.TB
	_ time.Time
	_ belay.RawJob
	_ activejob.Envelope
	_ *belaytest.Kit
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
		program := guideImports
		for _, piece := range pieces(t, guide, "go") {
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

// pieces are a document's blocks of code in a language.
func pieces(t *testing.T, document, language string) []string {
	t.Helper()
	var found []string
	for _, match := range regexp.MustCompile("(?ms)^ *```"+language+"\n(.*?)^ *```$").FindAllStringSubmatch(read(t, document), -1) {
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

// The rule for Redis' user is enough for all that belay check knows to be needed.
func TestOperationsRuleForTheUserIsEnough(t *testing.T) {
	t.Parallel()
	rule := regexp.MustCompile(`(?m)^ACL SETUSER belay .*$`).FindString(read(t, "operations.md"))
	require.NotEmpty(t, rule)
	redis := drivertest.Start(t)
	do(t, redis, strings.Fields(rule)...)
	output, err := run(t, redis, "", build(t, "../cmd/belay"), "check", "--prefix", "shop", "--redis", "redis://belay:SECRET@"+redis.Addr())
	require.Error(t, err, "this Redis writes nothing to disk")
	require.Regexp(t, `(?m)^ok +permissions `, output)
	require.Regexp(t, `(?m)^ok +blocking `, output)
	require.Equal(t, 1, strings.Count(output, "\nbad "), output)
}
