package client

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnInvalidErrorIsNoLongerThanAName(t *testing.T) {
	t.Parallel()
	long := &InvalidError{Class: strings.Repeat("é", 5000), Err: errors.New("it is too long")}
	require.Equal(t, `belay: cannot push a job of class "`+strings.Repeat("é", 255)+`": it is too long`, long.Error())
}
