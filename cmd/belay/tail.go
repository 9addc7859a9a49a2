package main

import (
	"os"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

const (
	// tailBytes is how much of a program's standard error becomes the error message, which is stored in Redis
	// with the job. The cause is usually in the last lines.
	tailBytes = 4 << 10
	// mostLeft limits what is read after the program's end: all that a pipe can hold. Other processes may
	// still write.
	mostLeft = 1 << 20
)

// A tail reads a pipe continuously, so that its writer never waits, and keeps the end.
type tail struct {
	pipe *os.File
	kept []byte
	done chan struct{} // closed when kept may be used
}

func newTail(pipe *os.File) *tail {
	t := &tail{pipe: pipe, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		buffer := make([]byte, 32<<10)
		for {
			n, err := pipe.Read(buffer)
			t.keep(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	return t
}

func (t *tail) keep(part []byte) {
	t.kept = append(t.kept, part[max(0, len(part)-tailBytes):]...)
	if len(t.kept) > 2*tailBytes {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-tailBytes:]...)
	}
}

// end is called after the program's end. It reads what is left without waiting for other processes that hold
// the pipe open, closes the pipe, and returns the last tailBytes as valid text.
func (t *tail) end() string {
	_ = t.pipe.SetReadDeadline(time.Now())
	<-t.done
	t.readLeft()
	_ = t.pipe.Close()
	return lastText(t.kept)
}

// lastText returns the last tailBytes as valid text, cut between characters.
func lastText(kept []byte) string {
	text := strings.ToValidUTF8(string(kept), "\ufffd")
	for cut := len(text) - tailBytes; cut > 0 && cut < len(text); cut++ {
		if utf8.RuneStart(text[cut]) {
			text = text[cut:]
			break
		}
	}
	return strings.TrimSpace(text)
}

// readLeft reads what is in the pipe: the deadline may have come before the reader was done.
func (t *tail) readLeft() {
	_ = t.pipe.SetReadDeadline(time.Time{})
	raw, err := t.pipe.SyscallConn()
	if err != nil {
		return
	}
	buffer := make([]byte, 64<<10)
	_ = raw.Read(func(fd uintptr) bool {
		for left := mostLeft; left > 0; {
			n, err := syscall.Read(int(fd), buffer)
			if err == syscall.EINTR {
				continue
			}
			if n <= 0 {
				break
			}
			t.keep(buffer[:n])
			left -= n
		}
		return true // do not wait for more
	})
}
