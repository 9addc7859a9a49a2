package logbook_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/logbook"
)

// oneLine writes one line into a Buffer and answers what its reader got.
func oneLine(t *testing.T, write func(log *slog.Logger)) string {
	t.Helper()
	var out bytes.Buffer
	buffer := logbook.New(logbook.JSON(&out, slog.LevelInfo))
	write(buffer.Logger())
	require.True(t, buffer.Flush(time.Minute))
	return out.String()
}

func TestALineCannotControlATerminal(t *testing.T) {
	t.Parallel()
	evil := "é日\u009b31m\u0085\u202ex\u2066\u061c\u200e\u2028\U000e0001\x7f\x1b"
	line := oneLine(t, func(log *slog.Logger) { log.Info(evil, "class", evil) })
	for _, r := range "\u009b\u0085\u202e\u2066\u061c\u200e\u2028\U000e0001\x7f\x1b" {
		require.NotContains(t, line, string(r), "%U in %q", r, line)
	}
	require.Contains(t, line, `é日\u009b31m`, "text stays readable")
	require.Equal(t, 1, strings.Count(line, "\n"))
	var fields map[string]string
	require.NoError(t, json.Unmarshal([]byte(line), &fields))
	require.Equal(t, evil, fields["class"], "and a reader of the JSON gets it as it is")
	require.Equal(t, evil, fields["message"])
	require.Equal(t, `"a\ufffdb"`, string(logbook.EscapeJSON([]byte("\"a\x9bb\""))), "a byte that is no character")
}

func TestALineShowsOnlyThePrefixOfALongName(t *testing.T) {
	t.Parallel()
	giant := strings.Repeat("日\"", 50_000)
	line := oneLine(t, func(log *slog.Logger) {
		log.Info("said", "jid", giant, "class", giant, "queue", giant, "error", "the jid is no name", "n", 7)
	})
	require.Less(t, len(line), 2000)
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(line), &fields))
	require.Contains(t, fields["jid"], "... (200000 bytes)")
	require.Equal(t, fields["jid"], fields["queue"])
	require.Equal(t, "the jid is no name", fields["error"])
	require.InDelta(t, 7, fields["n"], 0)
	require.Equal(t, "said", fields["message"])

	stack := strings.Repeat("frame\n", 1000)
	line = oneLine(t, func(log *slog.Logger) { log.Info("", "jid", "short", "stack", stack) })
	require.NoError(t, json.Unmarshal([]byte(line), &fields))
	require.Equal(t, stack, fields["stack"], "other fields stay whole")

	var out bytes.Buffer
	buffer := logbook.New(slog.NewJSONHandler(&out, nil))
	log := buffer.Logger()
	log.Info("said", "jid", giant)
	require.True(t, buffer.Flush(time.Minute))
	require.Less(t, out.Len(), 2000, "nor does a reader of the program's own get it")
}
