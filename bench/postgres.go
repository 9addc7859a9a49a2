package main

import (
	"context"
	"errors"
)

// A postgres is a PostgreSQL of the bench's own.
type postgres struct{}

func (p *postgres) stop() {}

func (b *bench) freshPostgres(context.Context) (string, error) { return "", errors.New("not yet") }
