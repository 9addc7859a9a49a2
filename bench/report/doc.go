// Package report turns what the bench has measured into what people read: a table on the terminal, JSON,
// Markdown, plots.
//
// It must never measure anything, nor know what a measure means: everything that it says stands in a Result.
package report
