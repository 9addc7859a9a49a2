package examples_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/torture.md says of each scenario which tests cover it; a test that was renamed or dropped is missed there.
func TestTortureNamesTestsThatThereAre(t *testing.T) {
	t.Parallel()
	there := make(map[string]bool)
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			there[string(found[1])] = true
		}
		return err
	}))
	named := regexp.MustCompile("`(Test\\w+)").FindAllStringSubmatch(read(t, "torture.md"), -1)
	require.Greater(t, len(named), 100)
	for _, name := range named {
		require.True(t, there[name[1]], "docs/torture.md names %s, which is not there", name[1])
	}
}
