// Package report writes the results of the bench: a table on the terminal, JSON, Markdown, plots.
//
// It must never measure anything or interpret a measure: everything that it prints is in a Result.
package report
