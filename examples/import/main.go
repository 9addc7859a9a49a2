// Command import reads a large file in one long job, line by line, and goes on after a stop or a crash.
//
//	seq 100000 > numbers.txt
//	go run ./examples/import -push numbers.txt      push the job, and work
//	go run ./examples/import                        work
//
// Stop it with Ctrl-C in the middle, or kill it, and start it again: after a stop it goes on with the next
// line, and after a kill it repeats at most the lines of the last second. Each line is written to standard
// output.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/belayq/belay"
)

type ImportArgs struct{ File string }

var Import = belay.Define[ImportArgs]("Import", belay.Idempotent())

var push, each = flag.String("push", "", "file to import"), flag.Duration("each", time.Millisecond, "time for a line")

func main() {
	belay.Main(func(ctx context.Context, server *belay.Server) error {
		Import.Handle(server, importFile)
		if *push == "" {
			return nil
		}
		_, err := Import.Enqueue(ctx, server.Client(), ImportArgs{File: *push})
		return err
	}, belay.MainConfig{Server: belay.ServerConfig{SaveInterval: time.Second}})
}

func importFile(ctx context.Context, args ImportArgs) error {
	file, err := os.Open(args.File)
	if err != nil {
		return belay.Kill(err) // a retry would not find it either
	}
	defer func() { _ = file.Close() }()
	var unread error
	// The cursor of a line is its offset.
	from := func(begin int64, _ bool) iter.Seq2[int64, string] { return lines(file, begin, &unread) }
	err = belay.Each(ctx, from, func(_ context.Context, line string) error {
		time.Sleep(*each) // the work; let it be idempotent, because a kill repeats lines
		_, err := fmt.Println(line)
		return err
	})
	return errors.Join(err, unread)
}

// lines yields the lines of a file from an offset on, each with its offset.
func lines(file *os.File, from int64, failed *error) iter.Seq2[int64, string] {
	return func(yield func(int64, string) bool) {
		if _, *failed = file.Seek(from, io.SeekStart); *failed != nil {
			return
		}
		for reader, at := bufio.NewReader(file), from; ; {
			line, err := reader.ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				*failed = err
				return
			}
			if line == "" || !yield(at, strings.TrimSuffix(line, "\n")) {
				return
			}
			at += int64(len(line))
		}
	}
}
