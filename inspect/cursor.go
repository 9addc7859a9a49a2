package inspect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/belayq/belay/lua"
)

// ErrCursor is the error for a cursor that no request of its kind has returned.
var ErrCursor = errors.New("the cursor belongs to another request")

// cursorOf returns a text for URLs and command lines that readCursor reads.
func cursorOf(at any) string {
	text, _ := json.Marshal(at) // of plain fields
	return base64.RawURLEncoding.EncodeToString(text)
}

// readCursor reads a cursor into at, a position or a searchPosition. The empty cursor is the beginning.
func readCursor(cursor string, at interface{ valid() bool }) error {
	if cursor == "" {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return ErrCursor
	}
	read := json.NewDecoder(bytes.NewReader(text))
	read.DisallowUnknownFields()
	if read.Decode(at) != nil || read.More() || !at.valid() {
		return ErrCursor
	}
	return nil
}

// A position is a place in a home, small enough for a cursor: payloads may have two megabytes.
type position struct {
	// From and To are the scores between which the rest of a set lies, and Left is how many entries with the
	// score From were passed and stayed.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	Left int    `json:"left,omitempty"`
	// For a list, Most is the number of entries at the beginning (0 until the first page is read), Seen how
	// many were passed, Left how many of those at most stayed, and Mark the hash of the last one that stayed.
	Most int    `json:"most,omitempty"`
	Seen int    `json:"seen,omitempty"`
	Mark string `json:"mark,omitempty"`
	// Spread is the act's own, see act.spread.
	Spread int `json:"spread,omitempty"`
}

// passed goes on in a set.
func (p *position) passed(entry lua.Entry, stays bool) {
	if entry.Score != p.From {
		p.From, p.Left = entry.Score, 0 // perhaps too few: those that were left out are then read again
	} else {
		p.Left += entry.LeftOut
	}
	if stays {
		p.Left++
	}
}

// valid reports whether Redis takes what a cursor says.
func (p *position) valid() bool {
	score := func(text string) bool {
		value, err := strconv.ParseFloat(text, 64)
		return err == nil && !math.IsNaN(value)
	}
	return p.Left >= 0 && p.Most >= 0 && p.Seen >= 0 && p.Spread >= 0 && (p.To == "" && p.From == "" || score(p.From) && score(p.To))
}

func (s *searchPosition) valid() bool { return s.Stage >= 0 && s.Way.valid() }
