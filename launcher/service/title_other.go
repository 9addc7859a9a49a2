//go:build !linux

package service

// showTitle does nothing: there is no simple way on this system.
func (p Process) showTitle() (end func()) { return func() {} }
