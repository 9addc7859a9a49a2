// Command torture spends a given time on whatever breaks job systems: first the crash-point sweep, which kills
// a process at each command it sends, then a storm of unique jobs and one of batches, then rounds of chaos,
// with Belay's default settings, with fast ones, and with kills alone, in turn. With -shards the storms and the
// rounds work over several shards, and the sweep, whose plays are of one keyspace, is left out. Everything is
// drawn from one seed, and its last lines are the verdict. It exits with 1 when anything was lost or unlawful.
//
// Run it in the module's folder; it builds and runs the tests of ./integration, which say more about what they
// do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belayq/belay/launcher/service"
)

func main() {
	// The program that started this may be killed, and then nothing of it must go on.
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0)
	// A terminal that is closed (but under nohup), or a reader of what is printed that goes away, ends it as
	// Ctrl-C does, with nothing left behind.
	endings := append(service.NotIgnored(syscall.SIGHUP), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), endings...)
	t, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(2)
	}
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

// parse returns the run that a command line asks for.
func parse(args []string) (*torture, error) {
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	seed := rand.Uint64N(1_000_000)
	flags.Func("seed", "`number` that everything is drawn from; a new one without it", func(text string) (err error) {
		if text != "" {
			seed, err = strconv.ParseUint(text, 10, 64)
		}
		return err
	})
	shards := flags.Int("shards", 0, "over how many shards of their Redis the storms and the rounds work; 0 is one keyspace without shards")
	minutes := flags.Float64("minutes", 25, "how long it is to take, about, besides the build; fractions are allowed")
	out := flags.String("out", "", "file to which a line of JSON is added for each round")
	flags.SetOutput(io.Discard) // main prints an error once
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(os.Stdout)
		flags.PrintDefaults()
	}
	const most = 7 * 24 * 60 // a week, and more is a slip of the hand
	switch {
	case err != nil:
		return nil, err
	case flags.NArg() > 0:
		return nil, fmt.Errorf("%q is no flag: it takes -seed, -minutes, -shards and -out, and no other words", flags.Arg(0))
	case *shards < 0 || *shards == 1 || *shards > 16:
		return nil, fmt.Errorf("-shards must be 0, or from 2 to 16, not %d", *shards)
	case !(*minutes > 0 && *minutes <= most): // so written, what is no number is refused too
		return nil, fmt.Errorf("-minutes must be more than 0 and at most %d, not %v", most, *minutes)
	}
	path, err := lineFile(*out)
	if err != nil {
		return nil, err
	}
	lasting := time.Duration(*minutes * float64(time.Minute)).Round(time.Second)
	return &torture{plan: newPlan(seed, lasting, *shards), out: path}, nil
}

// lineFile is the file for the rounds' lines, by a path that a test finds too, which runs in another folder.
// One that cannot be written is an error now and not after the first round.
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
