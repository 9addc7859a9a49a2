package scheduler_test

import (
	"os"
	"testing"
	"time"

	"github.com/belayq/belay/internal/drivertest"
)

// patience bounds every wait and every call: far above what anything here takes, so that only a hang fails by it.
const patience = 20 * time.Second

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }
