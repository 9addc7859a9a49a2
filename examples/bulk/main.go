// Command bulk pushes a job for each record of a CSV file, and reads the file only as fast as Redis takes the
// jobs.
//
//	printf '42,short\n43,long\n' | REDIS_URL=redis://localhost:6379/0 go run ./examples/bulk
//
// When it breaks off, because a record is wrong or Redis is full or away, it says how to go on: with -skip N.
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"

	"github.com/belayq/belay"
)

type WelcomeArgs struct {
	UserID   int64
	Template string
}

var Welcome = belay.Define[WelcomeArgs]("WelcomeEmail", belay.Queue("mail"), belay.NotIdempotent("duplicate emails are acceptable"))

func main() {
	skip := flag.Int("skip", 0, "pass over so many records, which are pushed already")
	flag.Parse()
	ctx := context.Background()
	client, err := belay.Open(ctx, os.Getenv("REDIS_URL"), nil)
	if err != nil {
		log.Fatal(err)
	}
	var readErr error
	pushed := 0
	n, err := Welcome.EnqueueSeq(ctx, client, func(yield func(WelcomeArgs) bool) {
		readErr = each(os.Stdin, *skip, yield)
	}, func(receipts []belay.Receipt, err error) {
		pushed += len(receipts)
		fmt.Fprintf(os.Stderr, "\r%d records", pushed)
	})
	fmt.Fprintln(os.Stderr)
	var bulk *belay.BulkError
	if errors.As(err, &bulk) {
		// Unknown: Redis' answer was lost. These may be in it, and are pushed again: better twice than never.
		log.Fatalf("%v\ngo on with -skip %d; %d jobs may be pushed twice by that", err, *skip+n, bulk.Unknown)
	}
	fmt.Println(n, "jobs pushed")
	if readErr != nil {
		log.Fatalf("%v\nmend it, and go on with -skip %d", readErr, *skip+n)
	}
}

// each yields the records behind the first skip ones, until yield returns false or it finds a wrong one.
func each(in io.Reader, skip int, yield func(WelcomeArgs) bool) error {
	file := csv.NewReader(in)
	file.FieldsPerRecord = 2
	for number := 1; ; number++ {
		record, err := file.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		user, err := strconv.ParseInt(record[0], 10, 64)
		switch {
		case number <= skip:
		case err != nil:
			return fmt.Errorf("record %d: %w", number, err)
		case !yield(WelcomeArgs{UserID: user, Template: record[1]}):
			return nil
		}
	}
}
