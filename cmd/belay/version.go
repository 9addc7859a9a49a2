package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/belayq/belay"
)

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Prints the version of belay, the version of Go it was built with, and the platform.

With --json: {"version", "go", "platform"}.

Exit status: 0; 2 for a wrong command line.`,
		Example: "  belay version\n  belay version --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]string{
					"version": belay.Version, "go": runtime.Version(), "platform": platform(),
				})
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// versionLine is the output of belay version and belay --version.
func versionLine() string {
	return fmt.Sprintf("belay %s %s %s\n", belay.Version, runtime.Version(), platform())
}
