package subject

import (
	"fmt"
	"strings"
	"sync"
)

// shownEach is how much of a failed subject's standard error is shown of its beginning, and as much of its
// end. A Go panic tells its cause first, and then screenfuls of stacks; an error of Ruby or Node may come
// last, after warnings.
const shownEach = 2048

// A tail keeps the first and the last that was written to it.
type tail struct {
	mu          sync.Mutex
	first, last []byte
	// dropped is how many bytes between the two are forgotten.
	dropped int
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	head := min(len(p), shownEach-len(t.first))
	t.first = append(t.first, p[:head]...)
	t.last = append(t.last, p[head:]...)
	if extra := len(t.last) - shownEach; extra > 0 {
		t.dropped += extra
		t.last = append(t.last[:0], t.last[extra:]...)
	}
	return len(p), nil
}

// String is what was written first and last, without blanks around it, and between them how much is left out.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	between := ""
	if t.dropped > 0 {
		between = fmt.Sprintf("\n… %d bytes …\n", t.dropped)
	}
	return strings.TrimSpace(string(t.first) + between + string(t.last))
}
