package main

import "syscall"

// diesWithUs has the kernel kill the server when the bench ends, however it ends.
func diesWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
