package retry_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

func ExampleDecide() {
	j, err := job.Parse(`{"retry":5,"queue":"mail","args":[42],"class":"Welcome","jid":"a1"}`)
	if err != nil {
		panic(err)
	}
	run := retry.EndedRun{Job: j, Queue: "mail", Now: time.Unix(1700000000, 0)}

	for _, err := range []error{nil, errors.New("smtp: timeout"), retry.Kill(errors.New("no such user")), retry.Snooze(time.Hour)} {
		run.Err = err
		v := retry.Decide(retry.Policy{}, run)
		fmt.Println(v.Outcome.Exit(), v.Outcome.After(), v.Reason)
	}
	// Output:
	// done 0s done
	// retry 15s retry 1 of 5
	// dead 0s killed by its handler
	// snoozed 1h0m0s snoozed by its handler
}

func ExampleIn() {
	// A handler whose API said when to come back.
	err := retry.In(90*time.Second, errors.New("429 Too Many Requests"))
	fmt.Println(err)
	// Output: 429 Too Many Requests
}

func ExampleFormula() {
	formula := retry.Sidekiq8
	for count := range 4 {
		fmt.Print(formula.Delay(count, nil), " ")
	}
	// Output: 15s 16s 31s 1m36s
}
