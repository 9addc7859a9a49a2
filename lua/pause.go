package lua

import "github.com/belayq/belay/driver"

// Pause stops workers from taking jobs from a queue, from their next take on. It returns 1, or 0 if the queue
// was already paused.
func (k Keys) Pause(queue string) driver.Call { return driver.Command("SADD", k.Paused(), queue) }

// Resume ends a Pause. It returns 1, or 0 if the queue was not paused.
func (k Keys) Resume(queue string) driver.Call { return driver.Command("SREM", k.Paused(), queue) }
