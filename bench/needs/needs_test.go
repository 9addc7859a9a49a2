package needs

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// No need takes more lines with Belay than with asynq or River. Lines of comments and blank lines do not count.
func TestNoNeedTakesMoreLinesThanWithOthers(t *testing.T) {
	belay, asynq, river := lines(t, "belay"), lines(t, "asynq"), lines(t, "river")
	require.GreaterOrEqual(t, len(belay), 33)
	for _, others := range []map[string]int{asynq, river} {
		for need := range others {
			require.Contains(t, belay, need)
		}
	}
	for need, count := range belay {
		t.Logf("%-45s Belay %2d, asynq %2d, River %2d (0: not by itself)", need, count, asynq[need], river[need])
		for _, other := range []int{asynq[need], river[need]} {
			if other > 0 {
				require.LessOrEqual(t, count, other, need)
			}
		}
	}
}

// lines returns the number of lines of code for each need.
func lines(t *testing.T, system string) map[string]int {
	t.Helper()
	file, err := os.Open(system + "/needs.go")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	counts, need := map[string]int{}, ""
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		line := strings.TrimSpace(scanner.Text())
		if name, begins := strings.CutPrefix(line, "// need: "); begins {
			need = name
		} else if need != "" && line != "" && !strings.HasPrefix(line, "//") {
			counts[need]++
		}
	}
	return counts
}
