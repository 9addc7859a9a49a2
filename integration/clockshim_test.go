package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/internal/drivertest"
)

// A wallClock is the wall clock of one redis-server, which a test sets while the server runs. The workers'
// clocks stay true: they are this machine's.
type wallClock struct {
	t      *testing.T
	server *drivertest.Server
	offset *atomic.Int64 // microseconds, in memory that the server has mapped
}

// startClocked runs a private redis-server whose clock can be set. The oracle judges it, with these options.
func startClocked(t *testing.T, options ...oracle.Option) *wallClock {
	t.Helper()
	dir := t.TempDir()
	c := clocked(t, dir)
	t.Cleanup(func() { judge(t, c.server, dir, append(options, oracle.ClockMoves())...) })
	return c
}

// clocked runs a private redis-server whose clock can be set, and which writes down every step in dir. args are
// added to its command line.
func clocked(t *testing.T, dir string, args ...string) *wallClock {
	t.Helper()
	library, err := clockShim()
	require.NoError(t, err)
	path := filepath.Join(dir, "offset")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	size := binary.Size(int64(0))
	require.NoError(t, file.Truncate(int64(size)))
	memory, err := syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Munmap(memory) })
	c := &wallClock{t: t, offset: (*atomic.Int64)(unsafe.Pointer(&memory[0]))}
	c.server = drivertest.StartWith(t, []string{"LD_PRELOAD=" + library, "CLOCK_OFFSET_FILE=" + path}, append(recording(dir), args...)...)
	c.step(0) // says at once if the server does not go by this clock
	return c
}

// clockShim builds the library that moves the clock, once.
var clockShim = sync.OnceValues(func() (string, error) {
	library := filepath.Join(filepath.Dir(belayPath), "clock.so")
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return "", errors.New("gcc not found: apt-get install gcc libc6-dev")
	}
	out, err := exec.Command(gcc, "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", library, "testdata/clockshim/clock.c").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("gcc cannot build testdata/clockshim/clock.c: %w\n%s", err, out)
	}
	return library, nil
})

// step sets the clock on or back, and makes sure that the server's TIME obeys.
func (c *wallClock) step(by time.Duration) {
	c.t.Helper()
	c.offset.Add(by.Microseconds())
	before := c.now()
	answer, err := c.server.Do(c.t.Context(), "TIME")
	require.NoError(c.t, err)
	parts := texts(answer)
	seconds, err := strconv.ParseInt(parts[0], 10, 64)
	require.NoError(c.t, err)
	micros, err := strconv.ParseInt(parts[1], 10, 64)
	require.NoError(c.t, err)
	require.WithinRange(c.t, time.UnixMicro(seconds*1e6+micros), before.Truncate(time.Microsecond), c.now(), "the server's clock cannot be set")
}

// set sets the clock on or back and answers when, by ours.
func (c *wallClock) set(by time.Duration) time.Time {
	c.t.Helper()
	c.step(by)
	return time.Now()
}

// now is the server's time.
func (c *wallClock) now() time.Time { return c.at(time.Now()) }

// at is what the server's clock showed at an instant of ours, if it has not been set since.
func (c *wallClock) at(local time.Time) time.Time {
	return local.Round(0).Add(time.Duration(c.offset.Load()) * time.Microsecond)
}
