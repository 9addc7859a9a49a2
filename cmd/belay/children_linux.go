package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// hideEnvironment overwrites variables in the memory in which the kernel stored this process' environment.
// /proc/PID/environ shows that memory until the process ends, whatever os.Unsetenv does, and programs
// that the worker starts may read it. Go keeps a copy, so os.Getenv returns the same values as before.
func hideEnvironment(variables []string) error {
	begin, end, err := environmentAt()
	if err != nil {
		return err
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = memory.Close() }()
	text := make([]byte, end-begin)
	if _, err := memory.ReadAt(text, begin); err != nil {
		return err
	}
	for at := int64(0); len(text) > 0; {
		entry, rest, _ := bytes.Cut(text, []byte{0})
		for _, name := range variables {
			if value, is := bytes.CutPrefix(entry, []byte(name+"=")); is {
				if _, err := memory.WriteAt(make([]byte, len(value)), begin+at+int64(len(entry)-len(value))); err != nil {
					return err
				}
			}
		}
		at, text = at+int64(len(entry))+1, rest
	}
	return nil
}

// environmentAt returns the addresses at which the environment of this process begins and ends.
func environmentAt() (begin, end int64, err error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0, err
	}
	// See proc(5): the second field is a name in parentheses, which may hold anything; env_start is field 50.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const start = 50 - 3
	if len(fields) <= start+1 {
		return 0, 0, errors.New("/proc/self/stat does not say where the environment is")
	}
	begin, err = strconv.ParseInt(string(fields[start]), 10, 64)
	if err == nil {
		end, err = strconv.ParseInt(string(fields[start+1]), 10, 64)
	}
	if err == nil && (begin <= 0 || end < begin || end-begin > maxEnvironment) {
		err = fmt.Errorf("/proc/self/stat has the environment at %d to %d", begin, end)
	}
	return begin, end, err
}

// maxEnvironment is more than Linux gives any process.
const maxEnvironment = 16 << 20

// diesWithParent has the kernel kill the child when the thread that started it ends.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
