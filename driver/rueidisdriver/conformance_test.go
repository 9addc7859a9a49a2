package rueidisdriver

import (
	"testing"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/drivertest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Exercise(t, func(url string) (driver.Client, error) { return Open(url) })
}

func BenchmarkDo(b *testing.B) {
	drivertest.Measure(b, func(url string) (driver.Client, error) { return Open(url) })
}
