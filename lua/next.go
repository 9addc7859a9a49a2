package lua

import "strconv"

// A Next is a job that the end of another one decides, and that is stored in the same step.
type Next struct {
	// Owner is that of the lock that passes to it; "" for none.
	Owner, Bytes string
	// Queue is where it goes, at the back.
	Queue string
}

// NextJobs are the jobs that follow one that is done, in their order.
type NextJobs []Next

func (n *NextJobs) part(lockFate) part { return part{name: "next", width: 3 * len(*n)} }

func (n *NextJobs) keys(k Keys) []string { return []string{k.Queues()} }

func (n *NextJobs) key(Keys) string { return "" }

func (n *NextJobs) appendTo(k Keys, keys, args []string) ([]string, []string) {
	for _, next := range *n {
		keys = append(keys, k.Queue(next.Queue))
		args = append(args, next.Bytes, strconv.Itoa(len(keys)), next.Queue)
	}
	return keys, args
}
