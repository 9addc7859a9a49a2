package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
)

// The programs in testdata import the Belay that is around this module. Beside each bad line stands what is said of it; of
// all others nothing is.
func TestSaysWhatIsWrongAndNothingElse(t *testing.T) {
	t.Parallel()
	for folder, analyzer := range map[string]*analysis.Analyzer{"./jobs": idempotence, "./servers": oneHandler, "./unique": uniqueEffects} {
		t.Run(analyzer.Name, func(t *testing.T) {
			t.Parallel()
			analysistest.Run(t, analysistest.TestData(), analyzer, folder)
		})
	}
}

func TestGoVetRunsItAndSwitchesItOff(t *testing.T) {
	t.Parallel()
	tool := filepath.Join(t.TempDir(), "belayvet")
	run := func(folder string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = folder
		said, err := cmd.CombinedOutput()
		if failed := len(said) > 0; failed != (err != nil) {
			t.Fatalf("go %q: %v\n%s", args, err, said)
		}
		return string(said)
	}
	run(".", "build", "-o", tool, ".")
	wrong := regexp.MustCompile(`unique.go:\d+:\d+: Bill is NotIdempotent`)
	if said := run("testdata", "vet", "-vettool="+tool, "./unique"); !wrong.MatchString(said) {
		t.Errorf("it should have found what is wrong, and said %q", said)
	}
	if said := run("testdata", "vet", "-vettool="+tool, "-uniqueeffects=false", "./unique"); said != "" {
		t.Errorf("that was switched off, and it said %q", said)
	}
}
