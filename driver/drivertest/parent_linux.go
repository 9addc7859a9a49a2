package drivertest

import "syscall"

// diesWithUs has the kernel kill the child when this process ends, so that a killed test leaves no server
// behind.
func diesWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
