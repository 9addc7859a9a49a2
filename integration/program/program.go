// Package program is what the programs that integration tests start have in common: the flags that say where
// Redis is, and a ledger of single appends.
//
// It must never import a package that a user's program cannot import.
package program

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/belayq/belay"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/driver/rueidisdriver"
)

// Flags are those of every program.
type Flags struct{ URL, Client, Prefix string }

// Add adds the flags to the command line.
func (f *Flags) Add() {
	flag.StringVar(&f.URL, "redis", "", "URL of Redis, or else the environment's BELAY_REDIS_URL")
	flag.StringVar(&f.Client, "client", "go-redis", "go-redis or rueidis")
	flag.StringVar(&f.Prefix, "prefix", "", "prefix of every key")
}

// As are the flags with another URL, such as that of another user; empty for the environment's BELAY_REDIS_URL.
func (f *Flags) As(url string) *Flags {
	other := *f
	other.URL = url
	return &other
}

// Open opens Belay's client, of one keyspace or of shards, with the Redis client that the flags name.
func (f *Flags) Open() (*belay.Client, error) {
	return client.Open(cmp.Or(f.URL, os.Getenv("BELAY_REDIS_URL")), client.Config{Prefix: f.Prefix}, func(url string, options ...driver.Option) (driver.Client, error) {
		if f.Client == "rueidis" {
			return rueidisdriver.Open(url, options...)
		}
		return goredisdriver.Open(url, options...)
	})
}

// Work runs a worker, to which prepare gives its handlers, until TERM.
func (f *Flags) Work(config belay.ServerConfig, prepare func(server *belay.Server) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	config.Logger = belay.Zerolog(zerolog.New(os.Stderr))
	server, err := belay.NewServer(client, config)
	if err != nil {
		return err
	}
	if err := prepare(server); err != nil {
		return err
	}
	return server.Run(ctx)
}

// Exists reports whether there is such a file.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Exit ends the program, with its error if there is one.
func Exit(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(70)
	}
	os.Exit(0)
}

// Note appends fields to a ledger, as one line by a single write: lines of several programs never mix, and a
// kill leaves no half of one.
func Note(path string, fields map[string]any) error {
	line, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	ledger, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = ledger.Write(append(line, '\n'))
	return errors.Join(err, ledger.Close())
}
