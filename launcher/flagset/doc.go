// Package flagset reads the settings of a worker program from its command line and its environment. This
// package is not public API: only what package belay exports from it carries a compatibility promise.
//
// A Flag is one setting: its names, its help and where its value goes. belay.MainConfig.Flags is the table of
// them, which belay.Main and `belay work` share. Main reads them with package flag (ReadCommandLine), and
// `belay work` with a library of its own.
//
// It must never import a command line library: every program that runs jobs would link it.
package flagset
