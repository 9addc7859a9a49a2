package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

// The programs in testdata import the Belay that is around this module. Beside each bad line stands what is
// said of it; of all others nothing is.
func TestSaysWhatIsWrongAndNothingElse(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), idempotence, "./jobs")
}

func TestGoVetRunsItAndSwitchesItOff(t *testing.T) {
	t.Parallel()
	tool := filepath.Join(t.TempDir(), "belayvet")
	run := func(folder string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "GOWORK=off") // testdata is a module that go.work does not list
		output, err := cmd.CombinedOutput()
		if failed := len(output) > 0; failed != (err != nil) {
			t.Fatalf("go %q: %v\n%s", args, err, output)
		}
		return string(output)
	}
	run(".", "build", "-o", tool, ".")
	finding := regexp.MustCompile(`jobs.go:\d+:\d+: Report has neither`)
	if output := run("testdata", "vet", "-vettool="+tool, "./jobs"); !finding.MatchString(output) {
		t.Errorf("it should have found what is wrong, and said %q", output)
	}
	// The last two checks are gone, and their flags are still accepted.
	if output := run("testdata", "vet", "-vettool="+tool, "-idempotence=false", "-onehandler=false", "-uniqueeffects=false", "./jobs"); output != "" {
		t.Errorf("that was switched off, and it said %q", output)
	}
}
