package launcher_test

import (
	"bytes"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/launcher"
)

// An operator dumps a worker that does nothing: it may still be waiting for Redis.
func TestDump_works_before_the_process_does(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	log := zerolog.New(&said)
	worker, err := launcher.New(launcher.Config{Client: struct{ driver.Client }{}, Log: &log})
	require.NoError(t, err)
	worker.Dump()
	require.Contains(t, said.String(), "TestDump_works_before_the_process_does")
	require.Empty(t, worker.Running())
}
