package job

// AsJSON216 is asJSON216, for the comparison with a Ruby whose json is older.
var AsJSON216 = asJSON216
