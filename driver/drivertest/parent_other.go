//go:build !linux

package drivertest

import "syscall"

// diesWithUs does nothing where the kernel has no parent-death signal: a killed test leaves its server
// running.
func diesWithUs() *syscall.SysProcAttr { return nil }
