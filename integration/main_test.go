package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/belayq/belay/driver/drivertest"
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
	var race []string
	if os.Getenv("BELAY_RACE") == "1" {
		race = []string{"-race"}
		// Programs with the detector wait a second at their end by default, and hundreds are run here.
		_ = os.Setenv("GORACE", "atexit_sleep_ms=10")
	}
	for _, words := range [][]string{
		append(append([]string{"build"}, race...), "-o", belayPath, "github.com/belayq/belay/cmd/belay"),
		{"build", "-o", handPath, "./testdata/hand"},
	} {
		if out, err := exec.Command("go", words...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go %v: %v\n%s", words, err, out)
			return 1
		}
	}
	return drivertest.Main(m)
}
