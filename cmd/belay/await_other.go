//go:build !linux

package main

import "os/exec"

// awaitExit returns at once: exec.Cmd.Wait waits.
func awaitExit(*exec.Cmd) {}
