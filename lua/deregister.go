package lua

var deregisterScript = load("deregister")

// Deregister ends identity, whose queues these are, and returns how many jobs are still in its working lists;
// a janitor will follow those.
func (k Keys) Deregister(identity string, queues []string) Ask[int] {
	keys := []string{
		k.Record(identity), k.Alive(), k.Tombstones(),
		k.Processes(), k.Process(identity), k.Work(identity), k.Workers(identity),
	}
	keys = append(keys, k.ListsOf(queues, identity)...)
	return asking(deregisterScript, keys, []string{identity}, readLeft)
}

func readLeft(value any) (int, error) {
	_, rest, err := partsOf(value)
	if err != nil {
		return 0, err
	}
	numbers, err := numbersOf(rest)
	if err != nil || len(numbers) != 1 {
		return 0, errShape(value)
	}
	return numbers[0], nil
}
