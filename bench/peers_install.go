package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/belayq/belay/bench/subject"
)

// buildGo builds a peer that is written in Go, as a program of its own.
func buildGo(folder string) func(context.Context, *house) (subject.Command, error) {
	return func(ctx context.Context, h *house) (subject.Command, error) {
		binary := filepath.Join(h.cache, folder)
		_, _ = fmt.Fprintf(h.progress, "%s: go build (a minute the first time)\n", folder)
		err := h.run(ctx, filepath.Join(h.root, "bench", "peers"), "go", "build", "-o", binary, "./"+folder)
		return subject.Command{Path: binary}, err
	}
}

// runRuby also installs the Redis driver in C, with which Sidekiq is a quarter faster. It is a library, so only
// Ruby knows whether it is installed. Sidekiq runs without it too, and its settings show that.
func runRuby(ctx context.Context, h *house) (subject.Command, error) {
	if h.run(ctx, h.root, "ruby", "-e", `require "hiredis/ext/connection"`) != nil {
		err := errors.New("apt-get install ruby-hiredis, or --install, as root")
		if h.install {
			err = h.run(ctx, h.root, "tools/need", "hiredis:ruby-hiredis")
		}
		if err != nil {
			_, _ = fmt.Fprintf(h.progress, "sidekiq: goes without its faster driver: %v\n", err)
		}
	}
	script := filepath.Join(h.root, "bench", "peers", "sidekiq", "peer.rb")
	_, err := os.Stat(script)
	return subject.Command{Path: "ruby", Args: []string{script}}, err
}

// installNode copies the peer to the cache and installs what its lock file names there, so that no
// node_modules appears in the repository. An installation for the same lock file is used again.
func installNode(ctx context.Context, h *house) (subject.Command, error) {
	from, to := filepath.Join(h.root, "bench", "peers", "bullmq"), filepath.Join(h.cache, "bullmq")
	command := subject.Command{Path: "node", Args: []string{"peer.mjs"}, Dir: to}
	if err := copyFiles(from, to); err != nil {
		return command, err
	}
	lock, err := os.ReadFile(filepath.Join(to, "package-lock.json"))
	if err != nil {
		return command, err
	}
	stamp := filepath.Join(to, "node_modules", ".installed-lock.json")
	if installed, err := os.ReadFile(stamp); err == nil && bytes.Equal(installed, lock) {
		return command, nil
	}
	_, _ = fmt.Fprintf(h.progress, "bullmq: npm ci (half a minute, once)\n")
	if err := h.run(ctx, to, "npm", "ci", "--no-audit", "--no-fund"); err != nil {
		return command, err
	}
	return command, os.WriteFile(stamp, lock, 0o644)
}

// copyFiles copies a folder's own files, and nothing in it that npm has made.
func copyFiles(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == "node_modules" {
			return fs.SkipDir
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		text, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(filepath.Join(to, name), text, 0o644))
	})
}
