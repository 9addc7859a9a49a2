package report

// Table is the result as a table for a terminal.
func Table(r *Result) string { return r.Title + "\n" }
