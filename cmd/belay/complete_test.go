package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// twoTabs completes the last word of a line as bash does when a user presses the key twice: the first time it
// inserts what the offered names have in common, and the second time it completes the line that it has now. The
// words are those that bash-completion's function would have made of the line.
const twoTabs = `
source <("$1" completion bash)
compopt() { :; }
_init_completion() { words=("${line[@]}"); cword=$((${#line[@]} - 1)); cur=${line[cword]}; prev=${line[cword - 1]}; }
line=("$@")
__start_belay
common=${COMPREPLY[0]-"${line[${#line[@]} - 1]}"}
for name in "${COMPREPLY[@]}"; do
  while [[ $name != "$common"* ]]; do common=${common%?}; done
done
line[$((${#line[@]} - 1))]=$common
__start_belay
printf '%s\n' "$common" "${#COMPREPLY[@]}"
`

// Any program that can write to Redis chooses the names that are completed. A shell evaluates the line that it
// completes, so bash would run a command in such a name.
func TestAShellRunsNoNameThatItCompletes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	want := map[string]string{"o": "ordinary.\n2\n", "": "ordinary.\n2\n"}
	for n, evil := range []string{"$(touch${IFS}PWNED)", "`touch PWNED`", ";touch PWNED;", "${x:=$(touch PWNED)}", "|touch PWNED|", "\ttouch PWNED", ">PWNED "} {
		begin := string(rune('a' + n))
		h.do("SADD", h.key("queues"), begin+evil+"1", begin+evil+"2")
		want[begin] = begin + "\n0\n"
	}
	h.do("SADD", h.key("queues"), "ordinary.1", "ordinary.2", "-evil", "=evil", "--redis=redis://evil.example")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for typed, want := range want {
		dir := t.TempDir()
		bash := exec.CommandContext(ctx, "bash", append([]string{"-c", twoTabs, "bash", binary}, append(h.at("queues", "pause"), typed)...)...)
		bash.Dir, bash.Env = dir, append(os.Environ(), "COLUMNS=80")
		out, err := bash.Output()
		require.NoError(t, err)
		assert.NoFileExists(t, filepath.Join(dir, "PWNED"), typed)
		assert.Equal(t, want, string(out), typed)
	}
	require.Equal(t, "; did you mean ordinary.1?", suggestion("ordinary.", []string{"ordinary.1", "ordinary.$(touch PWNED)"}))
}
