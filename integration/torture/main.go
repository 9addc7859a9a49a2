// Command torture spends a given time on whatever breaks job systems: first the crash-point sweep, which kills a process at
// each command it sends, then a storm of unique jobs, then rounds of chaos, with Belay's default settings, with fast ones, and with kills alone, in turn. Everything is
// drawn from one seed, and its last lines are the verdict. It exits with 1 when anything was lost or unlawful.
//
// Run it in the module's folder; it builds and runs the tests of ./integration, which say more about what they do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	// Whoever started this may die without a word, and then nothing of it is to go on.
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0)
	seed := flag.String("seed", "", "number that everything is drawn from; a new one without it")
	minutes := flag.Float64("minutes", 25, "how long it is to take, about, besides the build; fractions are allowed")
	out := flag.String("out", "", "file to which a line of JSON is added for each round")
	flag.Parse()
	number, err := seedOf(*seed)
	if err == nil && *minutes <= 0 {
		err = errors.New("-minutes must be more than 0")
	}
	path, badPath := lineFile(*out)
	if err = errors.Join(err, badPath); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	t := &torture{plan: newPlan(number, time.Duration(*minutes*float64(time.Minute)).Round(time.Second)), out: path}
	err = t.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
	if !t.tell() {
		os.Exit(1)
	}
}

func seedOf(text string) (uint64, error) {
	if text == "" {
		return rand.Uint64N(1_000_000), nil
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("-seed %q is no whole number", text)
	}
	return seed, nil
}

// lineFile is the file for the rounds' lines, by a path that a test finds too, which runs in another folder. One that cannot be written is
// told of now and not after the first round.
func lineFile(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("-out: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return "", fmt.Errorf("-out: %w", err)
	}
	return path, file.Close()
}
