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

// exempt are the folders that still break these rules, and in how many lines at most: of words, and of prose
// that is too wide. A folder that is not here breaks none. The numbers only go down.
var exempt = []struct {
	folders     string
	words, wide int
}{
	{folders: ". .github .ci docs", words: 3, wide: 12},
	{folders: "fetch janitor launcher lua scheduler retry", words: 3, wide: 5},
	{folders: "client", words: 3, wide: 5},
	{folders: "inspect job driver cmd logbook integration tools", words: 3, wide: 5},
	{folders: "belaytest examples dedup bench", words: 3, wide: 15},
}

// Names of tests, keys of Redis and addresses are as they are.
var names = regexp.MustCompile("\\bTest\\w+(?:/[^`]*)?|belay:[a-z:]+|https?://\\S+")

func TestWordsArePlain(t *testing.T) {
	t.Parallel()
	patterns, every := make([]*regexp.Regexp, len(words)), make([]string, len(words))
	for i, word := range words {
		patterns[i], every[i] = regexp.MustCompile(word.banned), word.banned
	}
	first := regexp.MustCompile(strings.Join(every, "|")) // one search instead of one a word for most lines
	broken, wide := map[string][]string{}, map[string][]string{}
	eachText(t, func(file, text string) {
		folder, _, found := strings.Cut(filepath.ToSlash(file), "/")
		if !found {
			folder = "."
		}
		prose := proseOf(file)
		for i, line := range strings.Split(text, "\n") {
			if first.MatchString(line) {
				line := names.ReplaceAllString(line, "")
				w := slices.IndexFunc(patterns, func(pattern *regexp.Regexp) bool { return pattern.MatchString(line) })
				if w >= 0 {
					said := fmt.Sprintf("%s:%d: %q: write %s", file, i+1, patterns[w].FindString(line), words[w].instead)
					broken[folder] = append(broken[folder], said)
				}
			}
			if prose(line) && utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) > widest {
				wide[folder] = append(wide[folder], fmt.Sprintf("%s:%d is wider than %d columns", file, i+1, widest))
			}
		}
	})
	for _, e := range exempt {
		var b, w []string
		for _, folder := range strings.Fields(e.folders) {
			b, w = append(b, broken[folder]...), append(w, wide[folder]...)
			delete(broken, folder)
			delete(wide, folder)
		}
		t.Logf("{folders: %q, words: %d, wide: %d},", e.folders, len(b), len(w))
		require.LessOrEqual(t, len(b), e.words, "more lines than before break the table of words:\n%s", strings.Join(b, "\n"))
		require.LessOrEqual(t, len(w), e.wide, "more lines of prose than before are too wide:\n%s", strings.Join(w, "\n"))
	}
	require.Empty(t, broken)
	require.Empty(t, wide)
}

// proseOf returns what reports whether a line of the file, each asked for in turn, is prose: a comment, or
// text of a document outside of tables, code and links.
func proseOf(file string) func(line string) bool {
	mark := map[string]string{".go": "//", ".lua": "--"}[filepath.Ext(file)]
	if filepath.Ext(file) != ".md" {
		return func(line string) bool { return mark != "" && strings.HasPrefix(strings.TrimSpace(line), mark) }
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
