package belaytest_test

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/belayq/belay"
	"github.com/belayq/belay/internal/drivertest"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

type mail struct {
	User     int
	Template string
}

var (
	welcome = belay.Define[mail]("Welcome", belay.Queue("mail"), belay.Retries(2))
	count   = belay.Define[int]("Count")
)

// A recorder is a test that records its failures instead of failing.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures += fmt.Sprintf(format, args...) + "\n"
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	r.FailNow()
}

func (r *recorder) FailNow() { runtime.Goexit() }

// failuresOf returns the failure messages of a test, one a line; "" if it passes.
func failuresOf(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(r)
	}()
	<-done
	return r.failures
}
