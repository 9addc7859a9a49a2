package oracle

// A deque is a Redis list: a ring of entries, cheap at either end.
type deque struct {
	ring    []*entry
	head, n int
}

func (d *deque) len() int { return d.n }

// at is the entry at an index from the left.
func (d *deque) at(i int) *entry { return d.ring[(d.head+i)%len(d.ring)] }

func (d *deque) set(i int, e *entry) { d.ring[(d.head+i)%len(d.ring)] = e }

func (d *deque) grow() {
	if d.n < len(d.ring) {
		return
	}
	ring := make([]*entry, max(8, 2*len(d.ring)))
	for i := range d.n {
		ring[i] = d.at(i)
	}
	d.ring, d.head = ring, 0
}

func (d *deque) push(e *entry, right bool) {
	d.grow()
	if !right {
		d.head = (d.head + len(d.ring) - 1) % len(d.ring)
	}
	d.n++
	if right {
		d.set(d.n-1, e)
	} else {
		d.set(0, e)
	}
}

// pop takes an entry from an end; nil from an empty list.
func (d *deque) pop(right bool) *entry {
	if d.n == 0 {
		return nil
	}
	if right {
		return d.remove(d.n - 1)
	}
	return d.remove(0)
}

// remove takes out the entry at an index, moving the shorter side.
func (d *deque) remove(i int) *entry {
	e := d.at(i)
	if i < d.n/2 {
		for ; i > 0; i-- {
			d.set(i, d.at(i-1))
		}
		d.set(0, nil)
		d.head = (d.head + 1) % len(d.ring)
	} else {
		for ; i < d.n-1; i++ {
			d.set(i, d.at(i+1))
		}
		d.set(d.n-1, nil)
	}
	d.n--
	return e
}

// find is the index of the first entry with this text, from the left or from the right; -1 when there is none.
func (d *deque) find(text string, right bool) int {
	for i := range d.n {
		if right {
			i = d.n - 1 - i
		}
		if d.at(i).text == text {
			return i
		}
	}
	return -1
}
