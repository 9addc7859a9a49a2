package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

// uPlot draws the plots (MIT, from npm, as published). htmx was rejected: the pages need one thing of it, to
// refresh themselves, and live.js does that in a fifth of the size, and keeps the focus and the selection.
//
//go:embed assets
var assetFiles embed.FS

// An assetFile is one embedded file with its hash. Its URL contains the hash, so browsers may keep it for
// ever.
type assetFile struct {
	content []byte
	kind    string
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
		kind := mime.TypeByExtension(path.Ext(name))
		if kind == "" {
			kind = "text/plain; charset=utf-8"
		}
		found[strings.TrimPrefix(name, "assets/")] = assetFile{content, kind, hex.EncodeToString(sum[:6])}
		return err
	})
	if err != nil {
		panic(err) // the files are in the binary
	}
	return found
}

func assetNames() []string {
	names := make([]string, 0, len(assets))
	for name := range assets {
		names = append(names, name)
	}
	return names
}

// assetURL returns the address of an asset relative to the root. The hash in its query changes with the
// content.
func assetURL(name string) string { return "assets/" + name + "?" + assets[name].hash }

func asset(name string) func(*Dashboard, *visit) error {
	file := assets[name]
	return func(_ *Dashboard, v *visit) error {
		head := v.w.Header()
		head.Set("Content-Type", file.kind)
		head.Set("Cache-Control", "private, max-age=300")
		if v.r.URL.RawQuery == file.hash {
			head.Set("Cache-Control", "private, max-age=31536000, immutable")
		}
		head.Set("ETag", `"`+file.hash+`"`)
		if v.r.Header.Get("If-None-Match") == `"`+file.hash+`"` {
			v.w.WriteHeader(http.StatusNotModified)
			return nil
		}
		_, _ = v.w.Write(file.content)
		return nil
	}
}
