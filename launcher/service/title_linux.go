package service

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/launcher"
)

const (
	// titleEvery is how often the process' title is compared with the worker's state: as often as an operator
	// with top sees a change.
	titleEvery = time.Second
	// maxTitle is the size of a thread's name in the kernel, without its end.
	maxTitle = 15
)

// showTitle shows in the name of the process how many of its processors are busy, and whether it is quiet, as
// Sidekiq's process title does, until end is called. ps -o comm, top and pstree show it. The longer title,
// argv, cannot be changed: Go's arguments are in that memory.
func (p Process) showTitle() (end func()) {
	path := "/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/comm" // the name of the first thread is the process'
	before, err := os.ReadFile(path)
	if err != nil {
		return func() {}
	}
	show := func(title string) { _ = os.WriteFile(path, []byte(title), 0) }
	return launcher.Beside(context.Background(), func(ctx context.Context) {
		defer func() { show(strings.TrimSpace(string(before))) }()
		look := time.NewTicker(titleEvery)
		defer look.Stop()
		for shown := ""; ; {
			now := title(filepath.Base(os.Args[0]), p.Worker.Busy(), p.Worker.Concurrency(), p.Worker.IsQuiet())
			if now != shown {
				shown = now
				show(now)
			}
			select {
			case <-look.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// title returns the title, such as "belay 3/25" or "bela 3/25 quiet". It shortens the program's name to make
// room.
func title(name string, busy, concurrency int, quiet bool) string {
	state := fmt.Sprintf(" %d/%d", busy, concurrency)
	if quiet {
		state += " quiet"
	}
	return name[:min(len(name), max(maxTitle-len(state), 0))] + state
}
