//go:build !linux

package main

import "syscall"

// diesWithUs does nothing where the kernel has no parent-death signal: a bench that is killed leaves its
// server running.
func diesWithUs() *syscall.SysProcAttr { return nil }
