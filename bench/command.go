package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

const longHelp = `Measures Belay and other job systems ("peers") on this machine.

Each system runs in a process of its own and does the same work on the same Redis (River on PostgreSQL 15). The runs of the
systems alternate (A B A B) and are repeated. A figure is the median of the runs, with the minimum and the maximum beside it.
Each peer runs twice: with the settings that are best for it, and at Belay's concurrency; with --concurrency only at that one.
Peers are built or installed in your cache folder if this machine has their runtime (--install installs runtimes). A peer
that cannot be measured is left out, and the table says why.

Progress goes to standard error and the table to standard output. --out also writes JSON, a report and plots to files.`

// newCommand makes the command line: a command for each measure, and one for all of them.
func newCommand(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "bench",
		Short: "Measure Belay and its peers on this machine",
		Long:  longHelp,
		Example: `  go run ./bench drain --peers none
  go run ./bench drain --jobs 200000 --concurrency 100 --client rueidis --peers asynq,bullmq
  go run ./bench all --out out/`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetOut(stdout)
	root.SetErr(stderr)
	o := &options{}
	o.addTo(root.PersistentFlags())
	noUseFor := map[string][]string{"guard": {"jobs", "concurrency", "repeat", "peers", "install", "client", "out", "full", "profile"}}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		o.isGiven(cmd.Flags())
		return o.refuse(cmd.Name(), noUseFor[cmd.Name()])
	}
	for _, m := range allMeasures() {
		noUseFor[m.name] = m.noUseFor()
		root.AddCommand(&cobra.Command{
			Use: m.name, Short: m.short, Long: m.help(), Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return measureAll(cmd.Context(), *o, []measurement{m}, stdout, stderr)
			},
		})
	}
	root.AddCommand(&cobra.Command{
		Use: "all", Short: "Run all measures, one after the other", Args: cobra.NoArgs,
		Long: "Runs all measures, one after the other. The default is a sample: it takes about a quarter of an hour on two idle cores, mostly " +
			"waiting, and some minutes more if peers must be installed first. --full fills every row and takes hours.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return measureAll(cmd.Context(), *o, allMeasures(), stdout, stderr)
		},
	}, &cobra.Command{
		Use: "guard", Short: "Check that a job costs no more than recorded bounds: counts and ratios, no speeds", Args: cobra.NoArgs, Long: longGuard,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return guardAll(cmd.Context(), *o, stdout, stderr)
		},
	}, &cobra.Command{
		Use: "subject", Hidden: true, Args: cobra.NoArgs,
		Short: "Run as Belay's subject: read a task from standard input and do it",
		Run: func(cmd *cobra.Command, _ []string) {
			os.Exit(subject.Serve(cmd.Context(), os.Stdin, os.Stdout, belaySubject()))
		},
	})
	return root
}

// measureAll runs the measures, and shows the result of each as soon as it is known.
func measureAll(ctx context.Context, o options, measures []measurement, stdout, stderr io.Writer) (err error) {
	defer func() { err = o.hideError(err) }()
	if err := o.check(); err != nil {
		return err
	}
	known, err := earlierIn(o)
	if err != nil {
		return err
	}
	b, err := openBench(ctx, o, stderr)
	if err != nil {
		return err
	}
	defer b.close()
	if slices.ContainsFunc(measures, func(m measurement) bool { return !m.alone }) {
		if err := b.preparePeers(ctx, allPeers()); err != nil {
			return err
		}
	}
	var results []*report.Result
	var failed []error
	for _, m := range measures {
		r, err := b.measure(ctx, m)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil { // the others are worth having all the same
			b.say("failed: %s: %v", m.name, err)
			failed = append(failed, fmt.Errorf("%s: %w", m.name, err))
			continue
		}
		results = append(results, r)
		known[r.Measure] = r
		// After each, and first, so that an hour's figures outlive whatever ends the run.
		if err := report.Write(o.out, r, inOrder(known)); err != nil {
			return err
		}
		if _, err := io.WriteString(stdout, report.Table(r)+"\n"); err != nil {
			return err
		}
	}
	if o.out != "" && len(results) > 0 {
		b.say("written to %s: report.md, and for each of %s its .json and .svg", o.out, strings.Join(measuredIn(results), ", "))
	}
	return errors.Join(failed...)
}

// earlierIn returns the results of earlier runs in the folder, by measure: report.md keeps their sections.
func earlierIn(o options) (map[string]*report.Result, error) {
	known := map[string]*report.Result{}
	if o.out == "" {
		return known, nil
	}
	for _, m := range allMeasures() {
		r, err := report.Read(o.out, m.name)
		if err != nil {
			return nil, err
		}
		if r != nil {
			r.Command = o.hide(r.Command)
			known[m.name] = r
		}
	}
	return known, nil
}

// inOrder returns the results in the order of the report.
func inOrder(known map[string]*report.Result) []*report.Result {
	var results []*report.Result
	for _, m := range allMeasures() {
		if r := known[m.name]; r != nil {
			results = append(results, r)
		}
	}
	return results
}
