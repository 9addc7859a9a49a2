package logbook_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/logbook"
)

// A program reads what goes to a pipe or a file; people see only what is meant for them.
func TestLinesAreForTheReader(t *testing.T) {
	t.Parallel()
	for format, shown := range map[string]string{
		"":                    `^\{"level":"error","queue":"mail","time":"\d{4}-\d\d-\d\dT[0-9:.]+Z","message":"failed"\}\n$`,
		logbook.FormatJSON:    `^\{"level":"error".*"message":"failed"\}\n$`,
		logbook.FormatConsole: `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \S+ ERR failed queue=mail\n$`,
	} {
		var out bytes.Buffer
		log := slog.New(logbook.Lines(&out, format, slog.LevelWarn))
		log.Info("unimportant")
		log.Error("failed", "queue", "mail")
		require.Regexp(t, shown, out.String(), "%q", format)
		require.Equal(t, 1, strings.Count(out.String(), "\n"))
	}
}
