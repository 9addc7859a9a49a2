package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Write writes the results into the folder: each as JSON and as a plot, and all of them as report.md. Without a folder it
// does nothing.
func Write(dir string, results []*Result) error {
	if dir == "" {
		return nil
	}
	for _, r := range results {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("write %s as JSON: %w", r.Measure, err)
		}
		name := filepath.Join(dir, r.Measure)
		if err := os.WriteFile(name+".json", append(text, '\n'), 0o644); err != nil {
			return err
		}
		if err := plotTo(r, name+".svg", name+".png"); err != nil {
			return fmt.Errorf("plot %s: %w", r.Measure, err)
		}
	}
	return os.WriteFile(filepath.Join(dir, "report.md"), []byte(Markdown(results)), 0o644)
}
