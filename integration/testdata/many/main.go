// Command many is a worker of the integration tests that has hundreds of jobs in hand at once, which programs
// run by belay work --exec would be too many for:
//
//	many -redis URL -prefix TEXT -c N [-ttl 1s] LEDGER
//
// A job takes as many milliseconds as its second argument says, or until it is cancelled. Each run appends a
// line to LEDGER when it starts and one when it ends, as the program hand does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay"
)

func main() {
	url := flag.String("redis", "", "the URL of Redis")
	prefix := flag.String("prefix", "", "what stands before every key")
	most := flag.Int("c", 100, "how many jobs at once")
	ttl := flag.Duration("ttl", time.Second, "how long it counts as alive after a beat")
	flag.Parse()
	if err := work(*url, *prefix, *most, *ttl, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "many:", err)
		os.Exit(70)
	}
}

func work(url, prefix string, most int, ttl time.Duration, path string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ledger, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	client, err := belay.Open(ctx, url, &belay.ClientConfig{Prefix: prefix})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	server, err := belay.NewServer(client, belay.ServerConfig{
		Heartbeat: 200 * time.Millisecond, TTL: ttl, Concurrency: most, MaxInterruptions: 1000,
		Logger: belay.Zerolog(zerolog.New(os.Stderr)),
	})
	if err != nil {
		return err
	}
	server.HandleUnknown(func(ctx context.Context, j *belay.Job) error {
		var args []json.Number
		if err := json.Unmarshal([]byte(j.ArgsJSON()), &args); err != nil || len(args) < 2 {
			return errors.Join(errors.New("two numbers are expected"), err)
		}
		ms, _ := args[1].Int64()
		if err := note(ledger, "start", j); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(ms) * time.Millisecond):
			return note(ledger, "end", j)
		}
	})
	return server.Run(ctx)
}

// note appends a line with a single write, so that what several runs append never mixes.
func note(ledger *os.File, what string, j *belay.Job) error {
	line, err := json.Marshal(map[string]any{
		"what": what, "jid": j.JID(), "class": j.Class(), "worker": os.Getpid(),
		"pid": os.Getpid(), "at": time.Now().UnixNano(),
	})
	if err != nil {
		return err
	}
	_, err = ledger.Write(append(line, '\n'))
	return err
}
