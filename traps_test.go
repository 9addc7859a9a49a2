package belay_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// trapCount is how many traps of Sidekiq's wire format are known. Their numbers stay what they are: tests are named
// after them.
const trapCount = 64

// docs/traps.md has every trap once, in order, and each of its rows names tests that exist.
func TestTrapsHaveTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/traps.md")
	require.NoError(t, err)
	tests := testFiles(t)
	named := regexp.MustCompile("`(Test\\w+)(?:/([^`]+))?`")
	row := regexp.MustCompile("(?m)^\\| (?:(\\d+) \\| )?[A-Z`].*\\|$")
	next, used := 1, make(map[string]bool)
	for _, found := range row.FindAllStringSubmatch(string(text), -1) {
		line, number := found[0], found[1]
		if number != "" {
			require.Equal(t, strconv.Itoa(next), number, "the next trap")
			next++
		}
		mentions := named.FindAllStringSubmatch(line, -1)
		require.NotEmpty(t, mentions, "no test is named: %s", line)
		for _, mention := range mentions {
			test, part := mention[1], mention[2]
			used[mention[0]] = true
			require.NotEmpty(t, tests[test], "%s of trap %s does not exist", test, number)
			// A part is a name that begins so in the file of the test.
			require.True(t, part == "" || slices.ContainsFunc(tests[test], func(file string) bool { return strings.Contains(file, `"`+part) }),
				"%s has no part %s", test, part)
		}
	}
	require.Equal(t, trapCount+1, next, "a trap is missing")
	// The parts of TestTraps are numbered as the document numbers the traps: each of them is in it.
	for _, file := range tests["TestTraps"] {
		for _, part := range regexp.MustCompile(`t\.Run\("(\d\d)_`).FindAllStringSubmatch(file, -1) {
			require.True(t, used["`TestTraps/"+part[1]+"`"], "docs/traps.md does not name TestTraps/%s", part[1])
		}
	}
}

// testFiles are the tests of all modules in this repository, each with the text of the files that declare one of its
// name.
func testFiles(t *testing.T) map[string][]string {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	tests := make(map[string][]string)
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range declared.FindAllStringSubmatch(string(text), -1) {
			tests[found[1]] = append(tests[found[1]], string(text))
		}
		return err
	}))
	return tests
}
