package lua

var headsScript = load("heads")

// Heads returns for each gate the queue of its next waiter; "" if it has none.
func (k Keys) Heads(gates []string) Ask[[]string] {
	lists := make([]string, len(gates))
	for i, gate := range gates {
		lists[i] = k.WaitingList(gate)
	}
	return asking(headsScript, append([]string{k.Waiting()}, lists...), gates, readTexts)
}
