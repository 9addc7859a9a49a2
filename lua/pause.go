package lua

import "github.com/belayq/belay/driver"

// Pause lets workers take nothing from a queue from their next take on. It answers 1, or 0 when the queue was paused already.
func (k Keys) Pause(queue string) driver.Call { return driver.Command("SADD", k.Paused(), queue) }

// Resume is the end of a Pause. It answers 1, or 0 when the queue was not paused.
func (k Keys) Resume(queue string) driver.Call { return driver.Command("SREM", k.Paused(), queue) }
