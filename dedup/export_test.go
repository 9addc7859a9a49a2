package dedup

// RunFields are the fields that an extra run does not inherit.
func RunFields() []string { return runFields[:] }
