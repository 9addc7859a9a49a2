package lua

import "github.com/belayq/belay/driver"

// Reset sets a counter to zero.
func (k Keys) Reset(counter string) driver.Call { return driver.Command("SET", counter, "0") }
