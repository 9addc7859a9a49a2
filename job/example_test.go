package job_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay/job"
)

func ExampleParse() {
	j, err := job.Parse(`{"retry":3,"queue":"mail","args":[42,1.0],"class":"Welcome","jid":"81a3bda6f6b71c4e32642ff8"}`)
	if err != nil {
		panic(err)
	}
	fmt.Println(j.Class(), j.Args(), j.RetryRule().Limit)

	_, err = job.Parse(`{"class":"Welcome"}`)
	var unreadable *job.UnreadableError
	fmt.Println(errors.As(err, &unreadable), err)
	// Output:
	// Welcome [42 1.0] 3
	// true unreadable job: jid is missing
}

func ExampleJob_Patch() {
	j, err := job.Parse(`{ "class":"Welcome", "args":[1.0, 9007199254740993], "jid":"a1", "queue":"mail" }`)
	if err != nil {
		panic(err)
	}
	fmt.Println(j.Patch(job.SetString("queue", "slow"), job.SetInt("retry_count", 0)))
	// Output: { "class":"Welcome", "args":[1.0, 9007199254740993], "jid":"a1", "queue":"slow","retry_count":0 }
}

func ExampleDraft_Encode() {
	args, err := job.MarshalArgs([]any{42, 1.0, "<é>", nil})
	if err != nil {
		panic(err)
	}
	fmt.Println(job.Draft{
		Class: "Welcome", Queue: "mail", JID: "81a3bda6f6b71c4e32642ff8", ArgsJSON: args, Retry: "5",
		CreatedAt: time.Unix(1700000000, 0),
	}.Encode())
	// Output:
	// {"retry":5,"queue":"mail","args":[42,1.0,"<é>",null],"class":"Welcome","jid":"81a3bda6f6b71c4e32642ff8","created_at":1700000000.0}
}

func ExampleRetried() {
	o := job.Retried(`{"class":"Welcome"}`, 15*time.Second)
	processed, failed := o.Counts()
	fmt.Println(o.Exit(), o.After(), processed, failed)
	// Output: retry 15s true true
}
