package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// The two programs that the tests run, built once.
var belayPath, handPath string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "belay-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	belayPath, handPath = filepath.Join(dir, "belay"), filepath.Join(dir, "hand")
	if withRace() {
		// Programs with the detector wait a second at their end by default, and hundreds are run here.
		_ = os.Setenv("GORACE", "atexit_sleep_ms=10")
	}
	err = goBuild(belayPath, belayProgram)
	if err == nil {
		err = plainBuild(handPath, "./testdata/hand")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return drivertest.Main(m)
}

const belayProgram = "github.com/belayq/belay/cmd/belay"

// withRace says whether the workers that the tests run have the race detector.
func withRace() bool { return os.Getenv("BELAY_RACE") == "1" }

// goBuild builds a worker for the tests, with the race detector where they are to have it.
func goBuild(path, program string, flags ...string) error {
	if withRace() {
		flags = append(flags, "-race")
	}
	return plainBuild(path, program, flags...)
}

// plainBuild lets the tests that run beside it go first: nothing of theirs is late for a compiler.
func plainBuild(path, program string, flags ...string) error {
	words := append(append([]string{"-n", "19", "go", "build", "-p", "1", "-o", path}, flags...), program)
	if out, err := exec.Command("nice", words...).CombinedOutput(); err != nil {
		return fmt.Errorf("nice %v: %w\n%s", words, err, out)
	}
	return nil
}

// programCrashes is MaxInterruptions of testdata/worker and testdata/periodicworker.
const programCrashes = 1000

// buildWorker builds one of the tests' own workers.
func buildWorker(t *testing.T, program string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), filepath.Base(program))
	require.NoError(t, goBuild(path, program))
	return path
}
