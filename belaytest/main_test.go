package belaytest_test

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver/drivertest"
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

// A judge is a test that is expected to fail: it notes what is said instead.
type judge struct {
	testing.TB
	mu   sync.Mutex
	said string
}

func (j *judge) Helper() {}

func (j *judge) Errorf(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.said += fmt.Sprintf(format, args...) + "\n"
}

func (j *judge) Fatalf(format string, args ...any) {
	j.Errorf(format, args...)
	j.FailNow()
}

func (j *judge) FailNow() { runtime.Goexit() }

// verdict is what a test says that fails; empty for one that does not.
func verdict(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	j := &judge{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(j)
	}()
	<-done
	return j.said
}
