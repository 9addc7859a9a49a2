//go:build !linux

package drivertest

import "syscall"

// diesWithParent does nothing where the kernel has no parent-death signal: a killed test leaves its server
// running.
func diesWithParent() *syscall.SysProcAttr { return nil }
