package main

import (
	"bufio"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// asBench in the environment makes the test's binary the bench.
const asBench = "BELAY_BENCH_TEST_IS_THE_BENCH"

// TestMain lets the test's own binary be Belay's subject, as the bench's is, and the bench.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "subject" || os.Getenv(asBench) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTheBenchClearsUpHoweverItIsEnded(t *testing.T) {
	t.Parallel()
	hangUpByDefault(t)
	for name, end := range map[string]func(t *testing.T, bench *exec.Cmd, reader *os.File){
		"a terminal that is closed": func(t *testing.T, bench *exec.Cmd, _ *os.File) {
			require.NoError(t, bench.Process.Signal(syscall.SIGHUP))
		},
		"a reader that has read enough": func(t *testing.T, _ *exec.Cmd, reader *os.File) { require.NoError(t, reader.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			temporary := t.TempDir()
			path, err := os.Executable()
			require.NoError(t, err)
			// Its first line comes when there is a server, and the runs are still to come.
			bench := exec.CommandContext(bounded(t), path, "memory", "--jobs", "20000", "--client", "go-redis", "--peers", "none")
			bench.Env = append(os.Environ(), asBench+"=1", "TMPDIR="+temporary)
			reader, out, err := os.Pipe()
			require.NoError(t, err)
			defer func() { _ = reader.Close() }()
			bench.Stdout, bench.Stderr = out, out
			require.NoError(t, bench.Start())
			require.NoError(t, out.Close())
			line, err := bufio.NewReader(reader).ReadString('\n')
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(line, "memory:"), line)
			end(t, bench, reader)
			require.Error(t, bench.Wait())
			require.True(t, bench.ProcessState.Exited(), "%v", bench.ProcessState)
			left, err := os.ReadDir(temporary)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// hangUpByDefault has programs that the test starts take SIGHUP as in a terminal, also when the test runs
// under nohup. A program inherits that a signal is ignored, but not that it is caught.
func hangUpByDefault(t *testing.T) {
	t.Helper()
	if !signal.Ignored(syscall.SIGHUP) {
		return
	}
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
}
