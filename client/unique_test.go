package client

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
)

func unique(args ...any) Job {
	return Job{Class: "Report", Args: args, Unique: &dedup.Rule{Until: dedup.UntilExecuted, TTL: time.Minute}}
}
