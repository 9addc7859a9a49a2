//go:build !linux

package main

import "syscall"

// diesWithParent promises nothing here: only Linux has a parent-death signal.
func diesWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
