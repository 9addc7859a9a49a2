package talk

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// A Wire is the subject's end of the talk. Its methods may be called from many goroutines at once.
type Wire struct {
	lines chan []byte // lines from the bench that have not been read

	mu   sync.Mutex
	out  *json.Encoder
	last bool // Done or Failed has been said
}

// Open begins to listen. It calls hangUp once, from another goroutine, when in has ended before the last
// event was said: the bench is gone, and a subject that lived on would spoil the next measure's figures.
func Open(in io.Reader, out io.Writer, hangUp func()) *Wire {
	w := &Wire{lines: make(chan []byte, 16), out: json.NewEncoder(out)}
	go w.listen(in, hangUp)
	return w
}

func (w *Wire) listen(in io.Reader, hangUp func()) {
	scanner := bufio.NewScanner(in)
	for scanner.Scan() {
		w.lines <- []byte(scanner.Text())
	}
	w.mu.Lock()
	last := w.last
	w.mu.Unlock()
	if !last {
		hangUp()
	}
	close(w.lines)
}

// Task waits for the first line and reads it. Fields that this subject does not know are none of its business.
func (w *Wire) Task() (Task, error) {
	var task Task
	line, open := <-w.lines
	if !open {
		return task, fmt.Errorf("read the task: %w", io.ErrUnexpectedEOF)
	}
	if err := json.Unmarshal(line, &task); err != nil {
		return task, fmt.Errorf("read the task: %w", err)
	}
	return task, nil
}

// Say tells the bench an event.
func (w *Wire) Say(event Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = w.last || event.Event == Done || event.Event == Failed
	if err := w.out.Encode(event); err != nil {
		return fmt.Errorf("say %s: %w", event.Event, err)
	}
	return nil
}

// Wait tells the bench an event and waits until it says to go on.
func (w *Wire) Wait(event Event) error {
	if err := w.Say(event); err != nil {
		return err
	}
	return w.Await()
}

// Await waits until the bench says to go on.
func (w *Wire) Await() error {
	if _, open := <-w.lines; !open {
		return fmt.Errorf("wait for the bench: %w", io.ErrUnexpectedEOF)
	}
	return nil
}
