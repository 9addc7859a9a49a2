package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// stuck is a reader of the log that has stopped, until it is allowed to go on.
type stuck struct {
	goOn chan struct{}
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.goOn
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func TestJournal(t *testing.T) {
	t.Parallel()
	t.Run("does_not_block_and_counts_dropped_lines", func(t *testing.T) {
		t.Parallel()
		reader := &stuck{goOn: make(chan struct{})}
		log, err := openJournal(logFlags{level: "info", format: "json"}, reader)
		require.NoError(t, err)
		for range 20_000 { // more than there is room for
			log.Info("line") // would hang for ever
		}
		close(reader.goOn)
		log.close()
		reader.mu.Lock()
		defer reader.mu.Unlock()
		require.Contains(t, reader.text.String(), "log lines dropped")
	})
	t.Run("names_add_no_lines_and_no_colours", func(t *testing.T) {
		t.Parallel()
		for _, format := range []string{"json", "console"} {
			var out bytes.Buffer
			log, err := openJournal(logFlags{level: "info", format: format}, &out)
			require.NoError(t, err)
			log.Error("failed", "class", "A\nERR forged\x1b[31m\u009b\u202e", "queues", []string{"q\u009b1m\x7f"})
			log.close()
			require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
			require.NotContains(t, out.String(), "\x1b")
			require.NotContains(t, out.String(), "\u009b")
			require.NotContains(t, out.String(), "\u202e")
		}
	})
	t.Run("stacks_have_lines_on_the_console_only", func(t *testing.T) {
		t.Parallel()
		for _, format := range []string{"json", "console"} {
			var out bytes.Buffer
			log, err := openJournal(logFlags{level: "info", format: format}, &out)
			require.NoError(t, err)
			log.Warn("run failed", "class", "A\n\tB", "stack", "main.work()\n\t/src/main.go:7 \x1b[31m\nmain.main()")
			log.close()
			if format == "json" {
				require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
				continue
			}
			require.Contains(t, out.String(), "run failed class=\"A\\n\\tB\"\n    main.work()\n        /src/main.go:7 \\x1b[31m\n    main.main()\n")
		}
	})
	t.Run("a_file_is_reopened", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "work.log")
		log, err := openJournal(logFlags{level: "info", format: "json", path: path}, nil)
		require.NoError(t, err)
		require.NoError(t, os.Rename(path, path+".1"))
		log.reopen()
		log.Info("after")
		log.close()
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(text), "after")
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	})
}
