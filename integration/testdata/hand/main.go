// Command hand is the handler of the integration tests: a program for belay work --exec.
//
//	hand [-for 500ms] [-until FILE] [-deaf] [-fail TEXT] LEDGER
//
// It appends one line to LEDGER when it starts and one when it has done its work, each with a single write, so
// that what several hands append never mixes. Its work is to sleep: as long as -for says, else as many
// milliseconds as the job's second argument says; and until there is a FILE, or one with this name, a dot and the
// job's jid. -deaf ignores SIGTERM. -fail ends it
// with status 1 and TEXT on standard error.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	work := flag.Duration("for", 0, "how long to work")
	until := flag.String("until", "", "a file to wait for")
	deaf := flag.Bool("deaf", false, "ignore SIGTERM")
	fail := flag.String("fail", "", "what to fail with")
	flag.Parse()
	if *deaf {
		signal.Ignore(syscall.SIGTERM)
	}
	input, err := io.ReadAll(os.Stdin)
	must(err)
	note("start", input)
	if *work == 0 {
		*work = workTime(input)
	}
	time.Sleep(*work)
	for ; *until != "" && !exists(*until) && !exists(*until+"."+os.Getenv("BELAY_JID")); time.Sleep(10 * time.Millisecond) {
	}
	note("end", input)
	if *fail != "" {
		fmt.Fprintln(os.Stderr, *fail)
		os.Exit(1)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// workTime is the second of the job's arguments, in milliseconds.
func workTime(input []byte) time.Duration {
	var args []json.Number
	if json.Unmarshal(input, &args) != nil || len(args) < 2 {
		return 0
	}
	ms, _ := args[1].Int64()
	return time.Duration(ms) * time.Millisecond
}

func note(what string, input []byte) {
	line, err := json.Marshal(map[string]any{
		"what": what, "jid": os.Getenv("BELAY_JID"), "class": os.Getenv("BELAY_CLASS"), "queue": os.Getenv("BELAY_QUEUE"),
		"retry_count": os.Getenv("BELAY_RETRY_COUNT"), "worker": os.Getppid(), "pid": os.Getpid(),
		"at": time.Now().UnixNano(), "input": input,
	})
	must(err)
	ledger, err := os.OpenFile(flag.Arg(0), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	must(err)
	_, err = ledger.Write(append(line, '\n'))
	must(err)
	_ = ledger.Close()
}

// must ends the program on an error.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "hand:", err)
		os.Exit(70)
	}
}
