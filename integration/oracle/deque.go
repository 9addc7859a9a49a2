package oracle

import "slices"

// A deque is a Redis list from right to left. Queues grow at the left and shrink at the right, and a slice of
// that order does both without moving anything.
type deque []*entry

func (d *deque) push(e *entry, right bool) {
	if right {
		*d = slices.Insert(*d, 0, e)
		return
	}
	*d = append(*d, e)
}

// pop takes an entry from an end; nil from an empty list.
func (d *deque) pop(right bool) (e *entry) {
	switch last := len(*d) - 1; {
	case last < 0:
	case right:
		e, *d = (*d)[0], (*d)[1:]
	default:
		e, *d = (*d)[last], (*d)[:last]
	}
	return e
}

// remove takes out the first entry with this text, from the left or from the right; nil when there is none.
// atRight says that it was the rightmost.
func (d *deque) remove(text string, right bool) (e *entry, atRight bool) {
	found := -1
	for i, e := range *d {
		if e.text != text {
			continue
		}
		if found = i; right {
			break
		}
	}
	if found < 0 {
		return nil, false
	}
	e = (*d)[found]
	*d = slices.Delete(*d, found, found+1)
	return e, found == 0
}
