package check

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

// calls finds the commands that Belay's scripts and its plain calls name.
var calls = map[string]*regexp.Regexp{
	"../lua/*.lua":        regexp.MustCompile(`redis\.p?call\('(\w+)'`),
	"../lua/shared/*.lua": regexp.MustCompile(`redis\.p?call\('(\w+)'`),
	"../lua/*.go":         regexp.MustCompile(`driver\.Command\("(\w+)"`),
	"../fetch/*.go":       regexp.MustCompile(`driver\.Command\("(\w+)"`),
	"../janitor/*.go":     regexp.MustCompile(`driver\.Command\("(\w+)"`),
	"../client/*.go":      regexp.MustCompile(`driver\.Command\("(\w+)"`),
	"../scheduler/*.go":   regexp.MustCompile(`driver\.Command\("(\w+)"`),
	"../launcher/*.go":    regexp.MustCompile(`driver\.Command\("(\w+)"`),
	"../inspect/*.go":     regexp.MustCompile(`driver\.Command\("(\w+)"`),
	"*.go":                regexp.MustCompile(`driver\.Command\("(\w+)"`),
}

// scriptsOnly are folders whose calls may all go through lua.
var scriptsOnly = []string{"../fetch/*.go", "../client/*.go", "../scheduler/*.go", "../launcher/*.go"}

// notNeeded are commands that the check itself can do without.
var notNeeded = []string{"acl", "config"}

// byTheDrivers are commands that only the drivers spell.
var byTheDrivers = []string{"eval", "evalsha", "client", "blmove", "subscribe", "wait"}

func TestNeedsNameEveryCommandThatIsCalled(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for _, n := range needs(lua.NewKeys("p"), sampleOf([]string{"q"}, "host:1:aa")) {
		named[n.command] = true
		command, _, subcommand := strings.Cut(n.command, "|")
		named[command] = named[command] || subcommand && command == "pubsub" // which is nothing without a subcommand
	}
	for _, command := range notNeeded {
		named[command] = true
	}
	called := map[string]bool{}
	for pattern, call := range calls {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		found := 0
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, match := range call.FindAllStringSubmatch(string(text), -1) {
				found++
				called[strings.ToLower(match[1])] = true
				require.True(t, named[strings.ToLower(match[1])], "%s calls %s: add it to needs, with the key", file, match[1])
			}
		}
		require.NotEmpty(t, files, pattern)
		require.True(t, found > 0 || slices.Contains(scriptsOnly, pattern), "%s: nothing was found", pattern)
	}
	for _, n := range needs(lua.NewKeys("p"), sampleOf([]string{"q"}, "host:1:aa")) {
		command, _, _ := strings.Cut(n.command, "|")
		require.True(t, called[command] || slices.Contains(byTheDrivers, command), "nothing calls %s: remove it from needs", command)
	}
}
