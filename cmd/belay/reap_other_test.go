//go:build !linux

package main

func becomeOther() {}
