package lua

var renewScript = load("renew")

// Renew renews the locks of running jobs, each for its Hold, and returns how many the jobs still owned. The
// caller keeps within MaxItems.
func (k Keys) Renew(locks []Lock) Ask[int] {
	keys, args := []string{k.Unique()}, make([]string, 0, 3*len(locks))
	for _, lock := range locks {
		keys = append(keys, k.Lock(lock.Digest))
		args = append(args, lock.Digest, lock.Owner, millis(lock.Hold))
	}
	return asking(renewScript, keys, args, readNumber)
}
