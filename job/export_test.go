package job

// AsJSON216 is asJSON216, for the comparison with a Ruby whose json is older.
func AsJSON216(text string) string { return string(asJSON216([]byte(text))) }
