package main

import "github.com/belayq/belay/launcher/service"

// outliveReaders keeps a command alive when the reader of what it says has gone.
func outliveReaders() { service.OutliveReaders() }
