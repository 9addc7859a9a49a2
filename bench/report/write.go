package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write writes a result into the folder, as JSON and as a plot, and all the results that belong there as
// report.md. Without a folder it does nothing.
func Write(dir string, r *Result, all []*Result) error {
	if dir == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s as JSON: %w", r.Measure, err)
	}
	name := filepath.Join(dir, r.Measure)
	if err := os.WriteFile(name+".json", append(text, '\n'), 0o644); err != nil {
		return err
	}
	if drawn := svg(r); drawn != "" {
		if err := os.WriteFile(name+".svg", []byte(drawn), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "report.md"), []byte(Markdown(all)), 0o644)
}

// Read reads what an earlier run has written into the folder of that measure, or nil if none has.
func Read(dir, measure string) (*Result, error) {
	name := filepath.Join(dir, measure+".json")
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nothing is what there is
	}
	r := &Result{}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err == nil && (r.Measure != measure || len(r.Metrics) == 0) {
		err = errors.New("it is none of the bench's results")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s, for report.md to keep its section: %w; remove it, or name another folder", name, err)
	}
	return r, nil
}
