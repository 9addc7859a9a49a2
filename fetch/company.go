package fetch

import "sync"

// A Company is several Fetchers in one operating system process, such as its capsules. A crash takes all of them, so a
// suspect that one of them runs alone must be alone among all of them, or another one's job could be its killer and the
// suspect be buried for it. A Fetcher without company needs none of this.
type Company struct {
	mu      sync.Mutex
	members map[*Fetcher]*member
	// alone is the member that has, or waits for, the whole process for a suspect; the others take nothing meanwhile.
	alone *Fetcher
}

// member is what the company knows of one of its Fetchers.
type member struct {
	busy    bool // has jobs in hand, or on their way
	waiting bool // has idle waits open
	nudge   chan struct{}
}

// join adds a member; what comes on the channel says that it should look at the company anew.
func (c *Company) join(f *Fetcher) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members == nil {
		c.members = make(map[*Fetcher]*member)
	}
	m := &member{nudge: make(chan struct{}, 1)}
	c.members[f] = m
	return m.nudge
}

func (c *Company) leave(f *Fetcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.members, f)
	c.endLocked(f)
}

// mayTake says whether f may bring a job into hand. From a yes on it counts as busy, until it reports otherwise.
func (c *Company) mayTake(f *Fetcher) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	may := c.alone == nil || c.alone == f
	c.members[f].busy = c.members[f].busy || may
	return may
}

// mayWait says whether f may open idle waits, which can bring a job at any moment. From a yes on it counts as waiting.
func (c *Company) mayWait(f *Fetcher) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	may := c.alone == nil || c.alone == f
	c.members[f].waiting = c.members[f].waiting || may
	return may
}

// others says whether another member has or waits for the whole process.
func (c *Company) others(f *Fetcher) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.alone != nil && c.alone != f
}

// report says what f has in hand now.
func (c *Company) report(f *Fetcher, busy, waiting bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[f]
	changed := m.busy != busy || m.waiting != waiting
	m.busy, m.waiting = busy, waiting
	if changed && c.alone != nil && c.alone != f {
		c.members[c.alone].wake()
	}
}

// crowded makes all members close their idle waits, because they share the server's connections with the call
// that was refused one.
func (c *Company) crowded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f, m := range c.members {
		f.crowded.Store(true)
		m.wake()
	}
}

// idle says whether all others have nothing in hand but idle waits, which cost nobody anything to end.
func (c *Company) idle(f *Fetcher) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idleLocked(f)
}

func (c *Company) idleLocked(f *Fetcher) bool {
	for other, m := range c.members {
		if other != f && m.busy {
			return false
		}
	}
	return true
}

// ask makes f the one for which the others take nothing: when all of them are idle, or by force. It says whether f has the
// process for itself by now; a nudge comes when it may be worth asking again.
func (c *Company) ask(f *Fetcher, force bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alone != f {
		if c.alone != nil || (!force && !c.idleLocked(f)) {
			return false
		}
		c.alone = f
		c.wakeOthersLocked(f)
	}
	for other, m := range c.members {
		if other != f && (m.busy || m.waiting) {
			return false
		}
	}
	return true
}

// end gives the process back to the others.
func (c *Company) end(f *Fetcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(f)
}

func (c *Company) endLocked(f *Fetcher) {
	if c.alone == f {
		c.alone = nil
		c.wakeOthersLocked(f)
	}
}

func (c *Company) wakeOthersLocked(f *Fetcher) {
	for other, m := range c.members {
		if other != f {
			m.wake()
		}
	}
}

func (m *member) wake() {
	select {
	case m.nudge <- struct{}{}:
	default:
	}
}
