package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"strings"
	"time"
)

// uPlot draws the plots (MIT, from npm, as published). htmx was rejected: the pages need one thing of it, to
// refresh themselves, and live.js does that in a fifth of the size, and keeps the focus and the selection.
//
//go:embed assets
var assetFiles embed.FS

// An assetFile is one embedded file with its hash. Its URL contains the hash, so browsers may keep it for
// ever.
type assetFile struct {
	name    string
	content []byte
	hash    string
}

var assets = readAssets()

func readAssets() map[string]assetFile {
	found := make(map[string]assetFile)
	err := fs.WalkDir(assetFiles, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := assetFiles.ReadFile(name)
		sum := sha256.Sum256(content)
		name = strings.TrimPrefix(name, "assets/")
		found[name] = assetFile{name, content, hex.EncodeToString(sum[:6])}
		return err
	})
	if err != nil {
		panic(err) // the files are in the binary
	}
	return found
}

// assetURL returns the address of an asset relative to the root. The hash in its query changes with the
// content.
func assetURL(name string) string { return "assets/" + name + "?" + assets[name].hash }

func (f assetFile) serve(_ *Dashboard, v *visit) error {
	head := v.w.Header()
	head.Set("Cache-Control", "private, max-age=300")
	if v.r.URL.RawQuery == f.hash {
		head.Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	head.Set("ETag", `"`+f.hash+`"`)
	http.ServeContent(v.w, v.r, f.name, time.Time{}, bytes.NewReader(f.content))
	return nil
}
