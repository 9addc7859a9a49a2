package drivertest

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// shared is the server that all tests of the process share, so it is a package-level variable.
var shared struct {
	mu     sync.Mutex
	server *Server
}

// Redis returns a real redis-server that all tests of the process share. The first call starts it. Each
// test uses its own Prefix, and must not flush, kill or stop the server or change its settings; Start is
// for that.
func Redis(t testing.TB) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		dir, err := os.MkdirTemp("", "belay-redis-")
		if err != nil {
			t.Fatal(err)
		}
		server, err := launch(form{dir: dir})
		if err != nil {
			_ = os.RemoveAll(dir)
			t.Fatal(err)
		}
		shared.server = server
	}
	return shared.server
}

// Main runs a package's tests, ends the shared server, and returns the exit status: that of the tests, or 1
// if they left goroutines behind. Use it as
//
//	func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }
func Main(m *testing.M, ignore ...goleak.Option) int {
	code := m.Run()
	stopShared()
	if err := goleak.Find(ignore...); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines were left behind:", err)
		return 1
	}
	return code
}

func stopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		return
	}
	shared.server.end()
	_ = os.RemoveAll(shared.server.dir)
	shared.server = nil
}

// Prefix returns a prefix of key names that no other test uses.
func Prefix(t testing.TB) string {
	t.Helper()
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	return "t" + hex.EncodeToString(b[:]) + ":"
}

// Miniredis returns the fake server, whose keys expire by the real clock. It ends with the test. It has
// neither CLIENT UNBLOCK nor "#!lua" lines; driver's TestConformance lists the other differences.
func Miniredis(t testing.TB) *miniredis.Miniredis {
	t.Helper()
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	return m
}

// A Buffer collects the writes of several goroutines, such as a log. The zero Buffer is ready for use.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends p. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns all that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Eventually asks a condition in the test's own goroutine until it holds, and fails the test once the limit has
// passed. The condition may fail the test itself, and never runs after the test's end, as that of
// require.Eventually can.
func Eventually(t testing.TB, condition func() bool, limit, pause time.Duration, message ...any) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			require.FailNow(t, "the condition never held", message...)
		}
	}
}
