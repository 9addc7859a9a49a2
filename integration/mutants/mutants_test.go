package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// root is the module's own folder.
const root = "../.."

// patience bounds one mutant's build and check, also where busy tests of more priority run beside them. Go's own
// bound on the check is shorter, and is not a way to be caught.
const patience = 10 * time.Minute

// A check that fails without a bug catches nothing. The checks of a package run in one go test: most of the
// time of a single one is its build.
func TestChecksPassWithoutABug(t *testing.T) {
	checks := make(map[string]*mutant)
	for _, m := range bugs {
		all := checks[m.pkg]
		switch {
		case all == nil:
			checks[m.pkg] = &mutant{pkg: m.pkg, run: m.run}
		case !slices.Contains(strings.Split(all.run, "|"), m.run):
			all.run += "|" + m.run
		}
	}
	for pkg, all := range checks {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			out, failed := check(t, *all, "")
			require.False(t, failed, out)
			for _, m := range bugs {
				if m.pkg == pkg {
					require.Contains(t, out, "--- PASS: "+m.caught+" (")
				}
			}
		})
	}
}

// Every planted bug is caught by the check that is there for it. The package's name comes first, so that -run and
// -skip can choose by it.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range bugs {
		t.Run(m.pkg+"/"+strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			out, failed := check(t, m, plant(t, m.edits))
			require.True(t, failed, "no test notices: %s passes\n%s", m.caught, out)
			for _, no := range []string{"[build failed]", "[setup failed]", "\npanic: ", "no tests to run"} {
				require.NotContains(t, out, no, "this is no check that fails, but one that does not run")
			}
			require.Contains(t, out, "--- FAIL: "+m.caught+" (", "another check fails than the one that should")
			require.Contains(t, out, m.says, "it fails, but for another reason")
			t.Logf("%s: caught by %s in %v", m.name, m.caught, time.Since(began).Round(100*time.Millisecond))
		})
	}
}

// A change can remove the text in which a bug is planted. This test needs no build, so a developer notices at once.
func TestEachPlantedTextStandsOnce(t *testing.T) {
	t.Parallel()
	for _, m := range bugs {
		plant(t, m.edits)
	}
}

// plant makes the files with the bug, and answers the overlay that shows them to the compiler.
func plant(t *testing.T, edits []edit) (overlay string) {
	t.Helper()
	dir := t.TempDir()
	texts := make(map[string]string)
	for _, e := range edits {
		path, err := filepath.Abs(filepath.Join(root, e.file))
		require.NoError(t, err)
		if _, ok := texts[path]; !ok {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			texts[path] = string(text)
		}
		require.Equal(t, 1, strings.Count(texts[path], e.old),
			"%s has moved on: the text in which the bug is planted must stand there once. Plant it anew:\n%s", e.file, e.old)
		texts[path] = strings.Replace(texts[path], e.old, e.new, 1)
	}
	replace := make(map[string]string)
	for path, text := range texts {
		planted := filepath.Join(dir, fmt.Sprint(len(replace))+filepath.Ext(path))
		require.NoError(t, os.WriteFile(planted, []byte(text), 0o600))
		replace[path] = planted
	}
	listed, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	overlay = filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlay, listed, 0o600))
	return overlay
}

// check runs a mutant's check under an overlay; none for "".
func check(t *testing.T, m mutant, overlay string) (out string, failed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// Without optimizations, because most of the time of a check is its build.
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-gcflags=-N -l", "-count=1", "-v", "-timeout", "3m", "-run", m.run, m.pkg)
	cmd.Dir = root
	if overlay != "" {
		// By the environment, because a check may build the program, which is to have the bug too.
		cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	require.NoError(t, ctx.Err(), "%s", &output)
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return output.String(), err != nil
}

// docs/mutants.md is the table of this package, for people.
func TestTheDocIsTrue(t *testing.T) {
	var table strings.Builder
	table.WriteString("| the bug | planted in | what it would do | caught by |\n| --- | --- | --- | --- |\n")
	for _, m := range bugs {
		var files []string
		for _, e := range m.edits {
			if file := "`" + e.file + "`"; !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
		fmt.Fprintf(&table, "| %s | %s | %s | `%s` in `%s` |\n", m.name, strings.Join(files, ", "), m.harm, m.caught, m.pkg)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "mutants.md"))
	require.NoError(t, err)
	require.Contains(t, string(text), table.String(), "put this table into docs/mutants.md:\n%s", table.String())
}
