package lua

var deregisterScript = load("deregister")

// Deregister ends the session of identity, whose queues these are, and returns how many jobs are left in its
// working lists; a janitor will recover them.
func (k Keys) Deregister(identity string, queues []string) Ask[int] {
	keys := []string{
		k.Record(identity), k.Alive(), k.Tombstones(),
		k.Processes(), k.Process(identity), k.Work(identity), k.Workers(identity),
	}
	keys = append(keys, k.ListsOf(queues, identity)...)
	return asking(deregisterScript, keys, []string{identity}, readLeft)
}

func readLeft(r reader) (int, error) {
	_, left := r.text(), r.number()
	return left, r.end()
}
