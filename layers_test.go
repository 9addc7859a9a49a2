// Package belay_test tests the module as a whole: which package may import which, and that every package has
// a doc comment.
package belay_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/belayq/belay"

// layers maps each part to its layer. A part is a folder at the root with all its subfolders, or the root
// itself. An import goes to a lower layer or stays within its part, so parts of one layer never import each
// other.
var layers = map[string]int{
	"job": 0, "driver": 0, "logbook": 0, // base: a job, the interface of Redis clients, the log
	"internal": 1,                                     // base, for tests only
	"link":     1,                                     // base, too: deadlines, page sizes, pauses and outages of the calls of a driver
	"lua":      2,                                     // store: every write and every key name
	"retry":    3, "dedup": 3, "batch": 3, "limit": 3, // rules: pure
	"check": 3,                               // tests whether Belay can use a Redis server
	"fetch": 4, "janitor": 4, "scheduler": 4, // engines: take and settle jobs; recover those of dead processes; enqueue due jobs
	"launcher": 5, "client": 5, // processes: run jobs, put jobs in
	"belay": 6, "inspect": 6, // the root, and the API for operators: neither links the other
	"web": 7, "metrics": 7, "belaytest": 7, "activejob": 7, // add-ons: the dashboard, the users' test kit, Rails
	"cmd": 8, "integration": 8, "examples": 8, // programs
}

// testTools make a binary bigger and register their own flags, so no package that users link may import them.
var testTools = []string{"testing", "github.com/stretchr/testify", "go.uber.org/goleak", "pgregory.net/rapid"}

// testKits are the packages that exist for tests, and so may use testTools outside of a _test.go file.
var testKits = []string{"internal/drivertest", "belaytest", "integration"}

// engines are the packages whose doc comments have notPublic in their first paragraph.
var engines = []string{"batch", "client", "dedup", "fetch", "janitor", "launcher", "launcher/flagset", "launcher/service", "limit", "logbook", "lua", "scheduler"}

const notPublic = "This package is not public API: only what package belay exports from it carries a compatibility promise."

// impure are the packages below a pure one that call a server.
var impure = []string{"dedup/wal"}

// outsideWorld are the imports that a pure package must not have: a package that reads files or calls servers
// cannot be tested with a table. context is not one of them, because the error of a run that timed out is
// context.DeadlineExceeded.
var outsideWorld = []string{"net", "os", "syscall", "database", "golang.org/x/sys", "github.com/redis"}

func TestImportsGoDown(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		part, at := p.part(), layers[p.part()]
		_, known := layers[part]
		require.True(t, known, "package %q is on no layer: add %q to layers in layers_test.go, above all that it "+
			"imports and below all that will import it", p.path, part)
		for imported, file := range p.imports {
			require.Empty(t, objection(p, at, imported), "%s imports %s", file, imported)
		}
	}
}

// objection returns why code outside of tests must not have an import; "" if it may.
func objection(p *pkg, at int, imported string) string {
	kit := within(p.path, testKits)
	if within(imported, testTools) && !kit {
		return "only _test.go files and the packages in testKits may use test tools"
	}
	if slices.Contains([]string{"retry", "dedup", "batch", "limit"}, p.part()) && !within(p.path, impure) && within(imported, outsideWorld) {
		return "retry, dedup, batch and limit are pure: no I/O; pass them what they need as an argument"
	}
	local, found := strings.CutPrefix(imported, module)
	if !found {
		return ""
	}
	target := &pkg{path: strings.TrimPrefix(local, "/")}
	layer, known := layers[target.part()]
	switch {
	case !known:
		return "the imported package is on no layer"
	case within(target.path, testKits) && !kit:
		return "only _test.go files and other test kits may use a test kit"
	case target.part() != p.part() && layer >= at:
		return "imports go to a lower layer: move the shared code down, or return a value that a higher layer passes on"
	}
	return ""
}

func TestObjection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, imported string
		allowed        bool
	}{
		{"lua", module + "/job", true},
		{"job", module + "/lua", false},
		{"job", module + "/driver", false},
		{"link", module + "/driver", true},
		{"link", module + "/lua", false},
		{"driver/goredisdriver", module + "/driver", true},
		{"", module + "/driver/goredisdriver", true},
		{"inspect", module, false},
		{"", module + "/inspect", false},
		{"", module + "/check", true},
		{"retry", module + "/dedup", false},
		{"retry", "net/http", false},
		{"retry", "net/netip", false},
		{"retry", "errors", true},
		{"dedup", "database/sql", false},
		{"dedup/wal", "database/sql", true},
		{"dedup", module + "/dedup/wal", true},
		{"lua", module + "/attic", false},
		{"lua", "testing", false},
		{"lua", "github.com/stretchr/testify/require", false},
		{"lua", module + "/internal/drivertest", false},
		{"internal/drivertest/faultproxy", "testing", true},
		{"belaytest", module + "/internal/drivertest", true},
		{"cmd/belay", module + "/web", true},
		{"cmd/belay", "github.com/spf13/cobra", true},
	} {
		p := &pkg{path: c.from}
		problem := objection(p, layers[p.part()], c.imported)
		require.Equal(t, c.allowed, problem == "", "%q imports %q: %s", c.from, c.imported, problem)
	}
}

// A program that imports the root links no command line, no test tool, nothing that only operators need, and
// one Redis client, the one that Open uses. The same holds for programs that only push or only work.
func TestRootLinksOnlyWhatItNeeds(t *testing.T) {
	t.Parallel()
	programs := []string{"", "/examples/bulk", "/examples/deploy"} // the root itself; a program that pushes; a program that works
	unwanted := slices.Concat(testTools, []string{
		"github.com/spf13/cobra", "charm.land", "github.com/redis/rueidis", "github.com/alicebob/miniredis",
		module + "/inspect", module + "/web", module + "/cmd", module + "/internal/drivertest", module + "/driver/rueidisdriver",
	})
	for _, program := range programs {
		listed, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+program).Output()
		require.NoError(t, err)
		dependencies := strings.Fields(string(listed))
		require.Subset(t, dependencies, []string{module, module + "/check", module + program})
		for _, dependency := range dependencies {
			require.False(t, within(dependency, unwanted), "%s links %s", module+program, dependency)
		}
	}
}

// The root package has no rules and does no work: code that needs one of these packages, or a goroutine,
// belongs in a lower layer.
func TestTheRootDoesNoWork(t *testing.T) {
	t.Parallel()
	work := []string{"net", "os/signal", "sync", "syscall", module + "/lua", module + "/scheduler"}
	for imported, file := range packages(t)[""].imports {
		if imported != "net/http" { // the type of Server.Health
			require.False(t, within(imported, work), "%s imports %s", file, imported)
		}
	}
	walk(t, func(file string) {
		if path.Ext(file) != ".go" || filepath.Dir(file) != "." || strings.HasSuffix(file, "_test.go") {
			return
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(node ast.Node) bool {
			require.False(t, isGo(node), "%s starts a goroutine", file)
			return true
		})
	})
}

func isGo(node ast.Node) bool {
	_, found := node.(*ast.GoStmt)
	return found
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	all := packages(t)
	for _, p := range all {
		require.NotEmpty(t, p.doc, "package %q has no doc comment: doc.go begins with \"// Package NAME \", a "+
			"command's main.go with \"// Command NAME \"", p.path)
	}
	for _, engine := range engines {
		opening, _, _ := strings.Cut(all[engine].doc, "\n\n")
		require.Contains(t, strings.Join(strings.Fields(opening), " "), notPublic, "package %q", engine)
	}
}

func TestNoFileNamesThePlaceItWasWrittenIn(t *testing.T) {
	t.Parallel()
	checkout, err := os.Getwd()
	require.NoError(t, err)
	private := privatePaths(checkout)
	walk(t, func(file string) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if !slices.Contains(text, 0) { // a NUL: an image or another binary
			require.Empty(t, string(private.Find(text)), "%s names a path of one machine", file)
		}
	})
}

// privatePaths matches paths in a home, in a folder for temporary files, and in the top folder of the
// checkout.
func privatePaths(checkout string) *regexp.Regexp {
	private := []string{"root", `home/\w+`, `Users/\w+`, `tmp/[\w.-]+`}
	top, _, _ := strings.Cut(strings.TrimPrefix(filepath.ToSlash(checkout), "/"), "/")
	// These are on every machine, so a file may name them.
	if !slices.Contains([]string{"", "dev", "etc", "home", "opt", "proc", "srv", "sys", "tmp", "usr", "var"}, top) {
		private = append(private, regexp.QuoteMeta(top))
	}
	return regexp.MustCompile(`(?:^|[^\w.~/-])/(?:` + strings.Join(private, "|") + `)/`)
}

func TestPrivatePaths(t *testing.T) {
	t.Parallel()
	slash := func(names ...string) string { return "/" + strings.Join(names, "/") + "/" } // so that this file contains no such path
	for _, c := range []struct {
		checkout, text string
		private        bool
	}{
		{slash("builds", "belay"), "see " + slash("builds", "other"), true},
		{slash("builds", "belay"), "see docs" + slash("builds"), false},
		{slash("builds", "belay"), slash("root") + "go", true},
		{slash("home", "jane", "belay"), slash("home", "jane") + "x", true},
		{slash("usr", "src", "belay"), slash("usr", "lib") + "x", false},
		{slash("tmp", "belay"), slash("tmp", "jobs") + "x", true},
		{slash("tmp", "belay"), slash("tmp") + "x", false},
	} {
		require.Equal(t, c.private, privatePaths(c.checkout).MatchString(c.text), "%s in %s", c.text, c.checkout)
	}
}

func TestReadersFindTheirWay(t *testing.T) {
	t.Parallel()
	changes, err := os.ReadFile("CHANGELOG.md")
	require.NoError(t, err)
	require.Contains(t, string(changes), "\n## [Unreleased]\n")
	readme, err := os.ReadFile("README.md")
	if os.IsNotExist(err) {
		return
	}
	require.NoError(t, err)
	require.Contains(t, string(readme), "make test")
}

// pkg is one folder of Go files.
type pkg struct {
	path    string            // below the module, "" for the root
	imports map[string]string // of the files that are not tests, for all systems: import path to file
	doc     string
}

func (p *pkg) part() string {
	if p.path == "" {
		return "belay"
	}
	part, _, _ := strings.Cut(p.path, "/")
	return part
}

func (p *pkg) add(t *testing.T, file string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly|parser.ParseComments)
	require.NoError(t, err)
	if p.doc == "" {
		p.doc = docOf(parsed, filepath.Base(filepath.Dir(file)))
	}
	if strings.HasSuffix(file, "_test.go") {
		return
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		p.imports[imported] = file
	}
}

func docOf(file *ast.File, folder string) string {
	opening := "Package " + file.Name.Name + " "
	if file.Name.Name == "main" {
		opening = "Command " + folder + " "
	}
	if text := file.Doc.Text(); strings.HasPrefix(text, opening) {
		return text
	}
	return ""
}

// packages reads the sources instead of asking go list, which leaves out files for other systems.
func packages(t *testing.T) map[string]*pkg {
	t.Helper()
	found := map[string]*pkg{}
	walk(t, func(file string) {
		folder := strings.TrimPrefix(path.Dir(filepath.ToSlash(file)), ".")
		if path.Ext(file) != ".go" || strings.Contains("/"+folder+"/", "/testdata/") {
			return
		}
		if found[folder] == nil {
			found[folder] = &pkg{path: folder, imports: map[string]string{}}
		}
		found[folder].add(t, file)
	})
	// Proof that the walk found the module: without these a broken walk would pass every test here.
	require.Contains(t, found, "job")
	require.Contains(t, found, "driver")
	return found
}

// walk visits every file of this module that belongs in git: no build output, and no nested module.
func walk(t *testing.T, visit func(file string)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || file == "." {
			return err
		}
		if file == ".git" && !entry.IsDir() { // in a worktree a file, which holds the path of the repository
			return nil
		}
		if !entry.IsDir() {
			if entry.Type().IsRegular() && !slices.Contains([]string{".test", ".prof", ".rdb", ".aof"}, path.Ext(file)) {
				visit(file)
			}
			return nil
		}
		_, err = os.Stat(filepath.Join(file, "go.mod"))
		if err == nil || slices.Contains([]string{".git", "bin", "out"}, file) {
			return filepath.SkipDir
		}
		return nil
	}))
}

// within reports whether an import path, or a folder of the module, is one of roots or below one.
func within(name string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return name == root || strings.HasPrefix(name, root+"/")
	})
}
