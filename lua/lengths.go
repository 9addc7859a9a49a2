package lua

var lengthsScript = load("lengths")

// Lengths returns how many entries each of these lists has, at one instant; -1 for a key that is not a list.
// At most 2*MaxQueues+1 lists.
func Lengths(lists []string) Ask[[]int] {
	return asking(lengthsScript, lists, nil, readNumbers)
}
