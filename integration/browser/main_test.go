package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// patience bounds every wait: far above what anything here takes, so that only a hang fails by it.
const patience = 60 * time.Second

var (
	belayPath, shopPath string
	// jobs is how many jobs Redis has in the walk.
	jobs = 5000
	// pictures is the folder of the screenshots; empty for a temporary one.
	pictures = os.Getenv("BELAY_BROWSER_OUT")
)

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "belay-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	belayPath = filepath.Join(dir, "belay")
	if text := os.Getenv("BELAY_BROWSER_JOBS"); text != "" {
		if jobs, err = strconv.Atoi(text); err != nil || jobs < 1000 {
			fmt.Fprintf(os.Stderr, "BELAY_BROWSER_JOBS=%s is no number of jobs, at least 1000\n", text)
			return 1
		}
	}
	shopPath = filepath.Join(dir, "shop")
	for path, words := range map[string][]string{
		belayPath: {"-C", filepath.Join("..", ".."), "build", "-o", belayPath, "./cmd/belay"},
		shopPath:  {"build", "-o", shopPath, "./testdata/shop"},
	} {
		if out, err := exec.Command("nice", append([]string{"-n", "5", "go"}, words...)...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", filepath.Base(path), err, out)
			return 1
		}
	}
	return drivertest.Main(m)
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			require.FailNow(t, "waited in vain for "+what)
		}
	}
}
