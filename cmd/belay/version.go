package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/belayq/belay"
)

func newVersion() *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Prints the version of belay, the version of Go it was built with, and the platform.

With --json: {"version", "go", "platform"}.

Exit status: 0; 2 for a wrong command line.`,
		Example: "  belay version\n  belay version --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result := map[string]string{"version": belay.Version, "go": runtime.Version(), "platform": platform()}
			return show(cmd, result, printVersion)
		},
	}, "print one JSON object")
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// printVersion prints the output of belay version and belay --version.
func printVersion(t *table) {
	t.row(fmt.Sprintf("belay %s %s %s", belay.Version, runtime.Version(), platform()))
}
