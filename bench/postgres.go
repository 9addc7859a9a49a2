package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// postgresBin is the folder in Debian and its derivatives of the PostgreSQL version that River is measured on.
const postgresBin = "/usr/lib/postgresql/15/bin"

// postgresUser runs the server if the bench is root, because PostgreSQL refuses to run as root.
const postgresUser = "postgres"

// postgresSettings are the defaults, as River's users have them: a committed job is on disk (fsync and
// synchronous_commit stay on). Only sizes whose defaults suit very small machines are raised, as any
// administrator would, so that River does not wait for checkpoints and buffers.
var postgresSettings = []string{"shared_buffers=256MB", "max_wal_size=4GB", "max_connections=200"}

// A postgres is a PostgreSQL of the bench's own, started when it is first needed.
type postgres struct {
	port, dir string
	process   *exec.Cmd
	databases int
}

// freshPostgres returns the URL of an empty database. It drops the one before.
func (b *bench) freshPostgres(ctx context.Context) (string, error) {
	if b.postgres == nil {
		b.say("  starting PostgreSQL")
		started, err := startPostgres(ctx)
		if err != nil {
			return "", fmt.Errorf("start PostgreSQL: %w", err)
		}
		b.postgres = started
	}
	p := b.postgres
	if p.databases > 0 {
		if err := p.run(ctx, "dropdb", "--force", p.database()); err != nil {
			return "", err
		}
	}
	p.databases++
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%s/%s?sslmode=disable", p.port, p.database()), p.run(ctx, "createdb", p.database())
}

func (p *postgres) database() string { return "bench" + strconv.Itoa(p.databases) }

// run runs one of PostgreSQL's client programs against the server.
func (p *postgres) run(ctx context.Context, program string, args ...string) error {
	all := append([]string{"-h", "127.0.0.1", "-p", p.port, "-U", "postgres"}, args...)
	if output, err := exec.CommandContext(ctx, filepath.Join(postgresBin, program), all...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, lastLines(string(output), 3))
	}
	return nil
}

func startPostgres(ctx context.Context) (*postgres, error) {
	dir, err := os.MkdirTemp("", "belay-bench-postgres-")
	if err != nil {
		return nil, err
	}
	p := &postgres{dir: dir}
	if err := p.start(ctx); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *postgres) start(ctx context.Context) (err error) {
	as, err := unprivileged(p.dir)
	if err != nil {
		return err
	}
	data := filepath.Join(p.dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(postgresBin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale")
	initdb.Dir, initdb.SysProcAttr = p.dir, as
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, lastLines(string(output), 3))
	}
	if p.port, err = freePort(ctx); err != nil {
		return err
	}
	args := []string{"-D", data, "-p", p.port, "-h", "127.0.0.1", "-k", p.dir}
	for _, setting := range postgresSettings {
		args = append(args, "-c", setting)
	}
	p.process = exec.Command(filepath.Join(postgresBin, "postgres"), args...)
	p.process.Dir, p.process.SysProcAttr = p.dir, as
	if err := p.process.Start(); err != nil {
		return err
	}
	// It listens before it takes commands, and answers meanwhile that it is starting up.
	return comesUp(ctx, func() error { return p.run(ctx, "psql", "-d", "postgres", "-c", "SELECT 1") })
}

// unprivileged returns the attributes of a process that may run PostgreSQL, and gives dir to its user: postgres
// if the bench is root, otherwise the bench's own.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	as := diesWithUs()
	if os.Getuid() != 0 {
		return as, nil
	}
	account, err := user.Lookup(postgresUser)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL refuses to be run by root: %w", err)
	}
	uid, err := strconv.Atoi(account.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(account.Gid)
	if err != nil {
		return nil, err
	}
	if as == nil {
		as = &syscall.SysProcAttr{}
	}
	as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // small by nature
	return as, os.Chown(dir, uid, gid)
}

// stop ends the server at once, its children with it, and removes what it stored.
func (p *postgres) stop() {
	if p.process != nil && p.process.Process != nil {
		// SIGQUIT is PostgreSQL's immediate shutdown; a SIGKILL would leave its children and shared memory
		// behind.
		_ = p.process.Process.Signal(syscall.SIGQUIT)
		timer := time.AfterFunc(10*time.Second, func() { _ = p.process.Process.Kill() })
		_ = p.process.Wait()
		timer.Stop()
	}
	_ = os.RemoveAll(p.dir)
}
