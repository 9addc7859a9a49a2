package belay_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/internal/drivertest"
)

// A log line that cannot be written is a mistake of a test: zerolog reports each on standard error, where
// thousands of them would hide the test that has failed.
func TestMain(m *testing.M) {
	var unwritten atomic.Int64
	zerolog.ErrorHandler = func(error) { unwritten.Add(1) }
	code := drivertest.Main(m)
	if n := unwritten.Load(); n > 0 {
		fmt.Fprintf(os.Stderr, "%d log lines could not be written: a test closed their reader\n", n)
		code = max(code, 1)
	}
	os.Exit(code)
}
