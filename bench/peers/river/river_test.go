package main

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/bench/peers/measuretest"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/internal/drivertest"
)

// bin is where Debian keeps PostgreSQL's programs.
const bin = "/usr/lib/postgresql/15/bin"

// startPostgres starts a server of the test's own and returns the URL of an empty database.
func startPostgres(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "river-test-") // not t.TempDir: its parents are closed to the user who runs the server
	require.NoError(t, err)
	address := drivertest.FreeAddr(t)
	_, port, _ := strings.Cut(address, ":")
	as := unprivileged(t, dir)
	command := func(program string, args ...string) *exec.Cmd {
		command := exec.Command(filepath.Join(bin, program), args...)
		command.Dir, command.SysProcAttr = dir, as
		return command
	}
	data := filepath.Join(dir, "data")
	output, err := command("initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync").CombinedOutput()
	require.NoError(t, err, "apt-get install postgresql-15; initdb said: %s", output)
	server := command("postgres", "-D", data, "-p", port, "-h", "127.0.0.1", "-k", dir)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT) // an immediate shutdown, of its children too
		_ = server.Wait()
		_ = os.RemoveAll(dir)
	})
	url := "postgres://postgres@" + address + "/postgres?sslmode=disable"
	require.Eventually(t, func() bool {
		conn, err := pgx.Connect(t.Context(), url)
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err == nil
	}, 30*time.Second, 50*time.Millisecond)
	return url
}

// unprivileged gives dir to the user that PostgreSQL may run as, who is not root.
func unprivileged(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	require.NoError(t, err, "apt-get install postgresql-15")
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	require.NoError(t, err)
	require.NoError(t, os.Chown(dir, int(uid), int(gid)))
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

func TestEveryMeasureEndsWithFigures(t *testing.T) {
	t.Parallel()
	measuretest.EveryMeasure(t, system, startPostgres(t))
}

func TestDefaultsAreMeasuredWhereTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	require.Zero(t, choose(subject.Task{Measure: "latency", Concurrency: 7}).config(&worker{}).FetchPollInterval)
	require.Equal(t, fetchPollInterval, choose(subject.Task{Measure: "latency", Best: true}).config(&worker{}).FetchPollInterval)
}
