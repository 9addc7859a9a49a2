package dedup_test

import (
	"fmt"
	"time"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

func ExampleRule_Lock() {
	rule := dedup.Rule{Until: dedup.UntilExecuted, TTL: time.Hour, Positions: []int{1}}
	draft := job.Draft{Class: "Reindex", Queue: "default", JID: "b4a577edbccf1d805744efa9", ArgsJSON: `[42,"asked by Ann"]`}
	lock, err := rule.Lock(draft)
	if err != nil {
		panic(err)
	}
	draft.Extra = append(draft.Extra, lock.Edit())
	fmt.Println(draft.Encode())
	fmt.Println("stands for", lock.Lifetime(0), "- released when done:", lock.Releases(job.ExitDone), "- when retried:", lock.Releases(job.ExitRetry))
	// Output:
	// {"retry":true,"queue":"default","belay_unique":{"digest":"1eb362487297344a57fa00353ca18ad6","until":"until_executed","ttl_ms":3600000},"args":[42,"asked by Ann"],"class":"Reindex","jid":"b4a577edbccf1d805744efa9"}
	// stands for 1h0m0s - released when done: true - when retried: false
}

func ExampleDigest() {
	for _, args := range []string{`[1, {"a": 1, "b": 2}]`, `[1.0,{"b":2,"a":1}]`, `["1",{"a":1,"b":2}]`} {
		digest, err := dedup.Digest("Reindex", "", []byte(args))
		if err != nil {
			panic(err)
		}
		fmt.Println(digest, args)
	}
	// Output:
	// 5b86e91e0a4cf0e509b724d796427b7a [1, {"a": 1, "b": 2}]
	// 5b86e91e0a4cf0e509b724d796427b7a [1.0,{"b":2,"a":1}]
	// c608218d4926e6fb1e01d7b82668135e ["1",{"a":1,"b":2}]
}
