package postgres

import (
	"bytes"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	_ "github.com/lib/pq" // the driver
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// patience bounds every wait: far above what anything here takes, which is at most the 15 seconds until the jobs
// of a killed worker run again, so that only a hang fails by it.
const patience = 60 * time.Second

// A postgres is the programs of one installation, run as a user who may: PostgreSQL refuses to be run by root.
type postgres struct {
	bin, dir string
	as       *syscall.SysProcAttr
}

// install finds the programs, and makes a folder in which they may write.
func install(t *testing.T) *postgres {
	t.Helper()
	p := &postgres{bin: binaries(t)}
	dir, err := os.MkdirTemp("", "belay-replica-") // no t.TempDir: only its owner may enter that, and we are not
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	p.dir = dir
	if os.Geteuid() != 0 {
		return p
	}
	owner, err := user.Lookup("postgres")
	require.NoError(t, err, "root needs a user to run PostgreSQL as: apt-get install postgresql")
	uid, _ := strconv.ParseUint(owner.Uid, 10, 32)
	gid, _ := strconv.ParseUint(owner.Gid, 10, 32)
	require.NoError(t, os.Chown(dir, int(uid), int(gid)))
	p.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return p
}

// binaries is where initdb and its kin are: Debian keeps them off the PATH, and there may be links to some of
// them on it.
func binaries(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if path, err := exec.LookPath("postgres"); err == nil {
		found = append(found, path)
	}
	require.NotEmpty(t, found, "PostgreSQL is not installed: apt-get install postgresql")
	return filepath.Dir(found[0])
}

func (p *postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir, cmd.SysProcAttr = p.dir, p.as
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")} // no PG* of ours
	return cmd
}

func (p *postgres) run(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := p.command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s: %s", name, out)
}

// A server is one that runs until the test ends.
type server struct {
	*sql.DB
	port string
}

// serve starts a server on the data in a folder.
func (p *postgres) serve(t *testing.T, data string) *server {
	t.Helper()
	_, port, _ := net.SplitHostPort(drivertest.FreeAddr(t))
	s := &server{port: port}
	var output bytes.Buffer
	// It is thrown away: nothing of it needs to be on a disk.
	cmd := p.command("postgres", "-D", data, "-p", s.port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=60", "-c", "max_wal_senders=4")
	cmd.Stdout, cmd.Stderr = &output, &output
	require.NoError(t, cmd.Start())
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT) // leave at once
		<-gone
		if t.Failed() {
			t.Logf("%s: %s", data, output.String())
		}
	})
	db, err := sql.Open("postgres", fmt.Sprintf("host=127.0.0.1 port=%s user=belay dbname=postgres sslmode=disable connect_timeout=5", s.port))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	s.DB = db
	eventually(t, data+" to answer", func() bool { return db.PingContext(t.Context()) == nil })
	return s
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		require.False(t, time.Now().After(deadline), "waited in vain for %s", what)
	}
}

// A pair is a primary and its streaming replica.
type pair struct{ primary, replica *server }

func newPair(t *testing.T) pair {
	t.Helper()
	p := install(t)
	p.run(t, "initdb", "-D", "primary", "-U", "belay", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	primary := p.serve(t, "primary")
	p.run(t, "pg_basebackup", "-D", "replica", "-R", "-X", "stream", "-c", "fast", "--no-sync", "-h", "127.0.0.1", "-p", primary.port, "-U", "belay")
	both := pair{primary, p.serve(t, "replica")}
	both.primary.do(t, "CREATE TABLE products (id int PRIMARY KEY, revision int)")
	both.primary.do(t, "INSERT INTO products VALUES (42, 0)")
	eventually(t, "the replica to follow", func() bool {
		var revision int
		return both.replica.QueryRowContext(t.Context(), "SELECT revision FROM products WHERE id = 42").Scan(&revision) == nil
	})
	return both
}

func (s *server) do(t *testing.T, statement string, args ...any) {
	t.Helper()
	_, err := s.ExecContext(t.Context(), statement, args...)
	require.NoError(t, err, statement)
}

// pause stops the replica where it is: what it receives it does not replay.
func (p pair) pause(t *testing.T) {
	t.Helper()
	p.replica.do(t, "SELECT pg_wal_replay_pause()")
	eventually(t, "the replay to pause", func() bool {
		var state string
		err := p.replica.QueryRowContext(t.Context(), "SELECT pg_get_wal_replay_pause_state()").Scan(&state)
		return err == nil && state == "paused"
	})
}

func (p pair) resume(t *testing.T) {
	t.Helper()
	p.replica.do(t, "SELECT pg_wal_replay_resume()")
}
