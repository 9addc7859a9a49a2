// Command outbox writes jobs in the transactions of a shop: an order that is placed has its email, and one that
// is not has none.
//
//	go run ./examples/outbox -database postgres://localhost/shop -orders 10
//
// It needs a PostgreSQL, in which it creates its tables, and a Redis. Every third order fails after its job was
// written, and its transaction is rolled back. Kill the program, stop Redis, restart PostgreSQL: the email of
// each order is pushed once.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"

	_ "github.com/lib/pq" // the driver

	"github.com/belayq/belay"
	"github.com/belayq/belay/contrib/outbox"
)

type ConfirmArgs struct{ Order int64 }

var Confirm = belay.Define[ConfirmArgs]("ConfirmOrder", belay.Queue("mail"),
	belay.NotIdempotent("a second email is acceptable"))

var (
	database = flag.String("database", "", "the URL of a PostgreSQL")
	orders   = flag.Int("orders", 10, "how many orders to place")
)

func main() {
	belay.Main(func(ctx context.Context, server *belay.Server) error {
		db, err := sql.Open("postgres", *database)
		if err != nil {
			return err
		}
		box, err := outbox.New(server.Client(), outbox.Config{Logger: belay.Log(ctx)})
		if err != nil {
			return err
		}
		// In a real program this is a migration.
		_, err = db.ExecContext(ctx, outbox.Schema+"CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY)")
		if err != nil {
			return err
		}
		Confirm.Handle(server, func(_ context.Context, args ConfirmArgs) error {
			fmt.Println("confirmed order", args.Order) // the work
			return nil
		})
		relayed := make(chan struct{})
		go func() {
			defer close(relayed)
			_ = box.Run(ctx, db) // ctx ends when the last job has been settled
		}()
		server.OnExit(func() {
			<-relayed
			_ = db.Close()
		})
		for n := range *orders {
			if err := place(ctx, db, box, n%3 == 2); err != nil && !errors.Is(err, errSoldOut) {
				return err
			}
		}
		return nil
	}, belay.MainConfig{Server: belay.ServerConfig{Queues: belay.Queues("mail")}})
}

var errSoldOut = errors.New("sold out")

// place stores an order and its job in one transaction.
func place(ctx context.Context, db *sql.DB, box *outbox.Outbox, soldOut bool) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after Commit
	var order int64
	if err := tx.QueryRowContext(ctx, "INSERT INTO orders DEFAULT VALUES RETURNING id").Scan(&order); err != nil {
		return err
	}
	if _, err := box.Insert(ctx, tx, Confirm.Job(ConfirmArgs{Order: order})); err != nil {
		return err
	}
	if soldOut {
		return errSoldOut
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	fmt.Println("placed order", order)
	return nil
}
