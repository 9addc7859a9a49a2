package belay_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// words are expressions at which a reader stops, and what to write instead. TestWordsArePlain looks for them
// in all text but tests: comments, messages, identifiers, scripts, documents.
var words = []struct{ banned, instead string }{
	{`(?i)\b(nobody|somebody|whoever|anybody|everybody)\b`, "the worker, process, handler, caller or operator"},
	{`(?i)\b(is|are|was|were) to be\b`, "must be, will be, or the plain verb"},
	{`(?i)\bheard\b|\bunheard\b|\b(hear|hears|hearing) (of|nothing|from|that|it)\b`, "is notified of, receives, reads"},
	{`(?i)\btold\b|\btells? of\b`, "is passed, is notified, logs, returns, reports"},
	{`(?i)\b(looks?|looked|looking) after\b|\bby itself alone\b|\bas of now\b|\bborne\b`, "serves, manages; a plain sentence"},
	{`(?i)\b(one|those|they|he|she|all|none|others) who\b`, "the noun: callbacks, callers, processes"},
	{`(?i)\b(hand|hands|handed|handing)[ _-]?back`, "requeue"},
	{`\b[sS]trays?\b|[sS]tray[A-Zs]`, "orphaned entry, reclaim"},
	{`(?i:ghosts?\b|haunt|\breborn\b)`, "abandoned run; re-registered with a new identity"},
	{`\b[cC]rew|[a-z]Crew\b|\b[tT]rays?\b|[a-z]Trays?\b`, "pool, run queue, results"},
	{`(?i:pulses?\b|sighting|condemn)`, "heartbeat reply; suspected, dead"},
	{`\b[bB]ur(y|ies|ied)|Buried|Bury`, "move to the dead set; dead, killed"},
	{`\b[sS]hun|Shunned`, "queue state"},
	{`\b[oO]w(e|es|ed|ing)\b|[a-z]Owed|\bowed[A-Z]`, "unacked"},
	{`\b[cC]rowd|Crowd|\b[jJ]oint`, "coalesced; many"},
	{`\b[bB]lam(e|es|ed|ing)|Blame`, "crash policy; counts as a crash of"},
	{`\b[lL]ife\b|Life\b|Life[A-Z]`, "session, process"},
	{`[sS]uspects?\b|\bkillers?\b`, "quarantined; suspected (of a process)"},
	{`[nN]umbered[A-Z.]|\b[nN]umbered push`, "idempotency key"},
}

const widest = 112 // columns of a line of prose; a tab takes four

// Names of tests, keys of Redis and addresses are as they are.
var names = regexp.MustCompile("\\bTest\\w+(?:/[^`]*)?|belay:[a-z:]+|https?://\\S+")

func TestWordsArePlain(t *testing.T) {
	t.Parallel()
	patterns, every := make([]*regexp.Regexp, len(words)), make([]string, len(words))
	for i, word := range words {
		patterns[i], every[i] = regexp.MustCompile(word.banned), word.banned
	}
	first := regexp.MustCompile(strings.Join(every, "|")) // one search instead of one a word for most lines
	var broken []string
	eachText(t, func(file, text string) {
		prose := proseOf(file)
		for i, line := range strings.Split(text, "\n") {
			if first.MatchString(line) {
				line := names.ReplaceAllString(line, "")
				w := slices.IndexFunc(patterns, func(pattern *regexp.Regexp) bool { return pattern.MatchString(line) })
				if w >= 0 {
					problem := fmt.Sprintf("%s:%d: %q: write %s", file, i+1, patterns[w].FindString(line), words[w].instead)
					broken = append(broken, problem)
				}
			}
			if prose(line) && utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) > widest {
				broken = append(broken, fmt.Sprintf("%s:%d is wider than %d columns", file, i+1, widest))
			}
		}
	})
	require.Empty(t, strings.Join(broken, "\n"))
}

// proseOf returns a function that reports whether a line of the file is prose: a comment, or text of a document
// outside of tables, code and links. It must be called for each line, in order.
func proseOf(file string) func(line string) bool {
	mark := map[string]string{".go": "//", ".lua": "--"}[filepath.Ext(file)]
	if filepath.Ext(file) != ".md" {
		return func(line string) bool {
			line = strings.TrimSpace(line)
			return mark != "" && strings.HasPrefix(line, mark) && !strings.HasPrefix(line, mark+"\t")
		}
	}
	code := false
	return func(line string) bool {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		return !code && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "    ") && !strings.Contains(line, "](")
	}
}

// eachText visits the text of all modules in this repository but tests, their data and the changelog's history.
func eachText(t *testing.T, visit func(file, text string)) {
	t.Helper()
	seen := 0
	require.NoError(t, filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "bin", "out", "testdata", "node_modules"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		kinds := []string{".go", ".lua", ".md", ".yaml", ".yml", ".rb", ".py", ".js", ".sh"}
		if file != "Makefile" && !slices.Contains(kinds, filepath.Ext(file)) || strings.HasSuffix(file, "_test.go") || file == "CHANGELOG.md" {
			return nil
		}
		text, err := os.ReadFile(file)
		seen++
		visit(file, string(text))
		return err
	}))
	require.Greater(t, seen, 300, "the walk found too little")
}
