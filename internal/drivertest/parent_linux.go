package drivertest

import "syscall"

// diesWithParent has the kernel kill the child when this process ends, so that a killed test leaves no server
// behind.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
