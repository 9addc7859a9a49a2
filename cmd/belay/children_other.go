//go:build !linux

package main

import "syscall"

// diesWithParent promises nothing here: only Linux has a parent-death signal.
func diesWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// hideEnvironment does nothing here: only Linux shows other processes' environments as a file.
func hideEnvironment([]string) error { return nil }
