package fetch

import (
	"os"
	"testing"

	"github.com/belayq/belay/internal/drivertest"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }
