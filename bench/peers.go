package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

// A peer is a system that is measured beside Belay; its subject lies in bench/peers.
type peer struct {
	// flag is its name in --peers and the name of its folder, name what people call it.
	flag, name string
	// needs are the programs that it runs on, as tools/need has them: COMMAND:PACKAGE.
	needs []string
	// prepare builds or installs it, and says how it is started.
	prepare  func(ctx context.Context, h *house) (subject.Command, error)
	postgres bool
	// times is by how much more jobs it is given than asynq, the slowest: those that compile while they run,
	// or are faster, need more to show what they can.
	times  int
	cannot map[string]string
}

// paidLimits are the measures that a peer's free version cannot do.
var paidLimits = map[string]string{"limits": "limits by key are in its paid version"}

// allPeers is the table of peers.
func allPeers() []peer {
	return []peer{
		{flag: "asynq", name: "asynq", prepare: buildGo("asynq")},
		{flag: "sidekiq", name: "Sidekiq", needs: []string{"ruby:ruby", "sidekiq:ruby-sidekiq"}, prepare: runRuby, times: 2, cannot: paidLimits},
		{flag: "bullmq", name: "BullMQ", needs: []string{"node:nodejs", "npm:npm"}, prepare: installNode, times: 2, cannot: paidLimits},
		{
			flag: "river", name: "River", needs: []string{postgresBin + "/initdb:postgresql-15"}, prepare: buildGo("river"), postgres: true, times: 2,
			cannot: map[string]string{
				"memory": "its jobs are rows of a table on disk: nothing to compare with bytes in Redis",
				// The hour is RescueStuckJobsAfter's default.
				"recovery": "it declares a job lost after an hour by default; the bench does not wait for that",
				"rtt":      "the proxy stands before Redis, and its store is PostgreSQL",
			},
		},
	}
}

func peerNames() []string {
	var names []string
	for _, p := range allPeers() {
		names = append(names, p.flag)
	}
	return names
}

// preparePeers builds the requested peers. One that cannot be built is logged and left out.
func (b *bench) preparePeers(ctx context.Context, peers []peer) error {
	if len(b.options.peers) == 0 {
		return nil
	}
	h, err := findHouse(b.progress)
	if err != nil {
		return err
	}
	h.install = b.install
	for _, p := range peers {
		if !slices.Contains(b.options.peers, p.flag) {
			continue
		}
		c := contender{name: p.name, kind: report.Peer, postgres: p.postgres, times: p.times, cannot: p.cannot}
		c.command, err = h.ready(ctx, p)
		if err == nil {
			b.versions[p.name], err = b.versionOf(ctx, c)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			b.say("left out: %s: %v", p.name, err)
			b.leftOut = append(b.leftOut, report.LeftOut{Subject: p.name, Why: brief(b.hide(err.Error()))})
		default:
			b.peers = append(b.peers, c)
		}
	}
	return nil
}

// versionOf asks a subject for its version, which also shows that it starts.
func (b *bench) versionOf(ctx context.Context, c contender) (string, error) {
	p, err := b.start(ctx, c, subject.Task{Measure: "version"})
	if err != nil {
		return "", err
	}
	defer p.Close()
	if err := p.Go(); err != nil {
		return "", err
	}
	e, err := p.Expect(ctx, subject.Done, time.Minute)
	return e.Settings, err
}

// A house holds the folders of the peers: this repository, and a folder of the user's cache for what is built
// from it.
type house struct {
	root, cache string
	progress    io.Writer
	// install allows to install what peers run on.
	install bool
}

// findHouse looks for the repository upwards from here, as go does for a module.
func findHouse(progress io.Writer) (*house, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "bench", "peers", "doc.go")); err == nil {
			return &house{root: dir, cache: filepath.Join(cache, "belay-bench"), progress: progress}, nil
		}
		if dir == filepath.Dir(dir) {
			return nil, fmt.Errorf("the peers' programs are not here: no bench/peers in %s or above it; run the bench from "+
				"Belay's repository, or with --peers none", here)
		}
	}
}

// ready builds a peer. Its runtime must be installed, or --install must be given.
func (h *house) ready(ctx context.Context, p peer) (subject.Command, error) {
	missing, packages := p.missing()
	switch {
	case len(missing) == 0:
	case !h.install:
		return subject.Command{}, fmt.Errorf("%s not here: install what is missing (Debian and its kin: apt-get install %s), or have the bench do it with --install, as root",
			areNot(missing), strings.Join(packages, " "))
	default:
		_, _ = fmt.Fprintf(h.progress, "%s: installing %s\n", p.name, strings.Join(packages, " "))
		if err := h.run(ctx, h.root, "tools/need", p.needs...); err != nil {
			return subject.Command{}, err
		}
	}
	return p.prepare(ctx, h)
}

// missing returns the programs that a peer needs and that are not installed, and Debian's packages of them.
func (p peer) missing() (programs, packages []string) {
	for _, need := range p.needs {
		program, from, _ := strings.Cut(need, ":")
		if _, err := exec.LookPath(program); err != nil {
			programs, packages = append(programs, filepath.Base(program)), append(packages, from)
		}
	}
	return programs, packages
}

func areNot(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names, " and ") + " are"
}

// run runs a program that builds or installs. If it fails, its output is the error.
func (h *house) run(ctx context.Context, dir, program string, args ...string) error {
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = dir
	command.WaitDelay = 5 * time.Second
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		command.Path = filepath.Join(dir, program)
		command.Err = nil
	}
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, lastLines(string(output), 3))
	}
	return nil
}

// lastLines returns the last n lines of a program's output, as one line.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}
