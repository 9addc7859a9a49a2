package integration

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/web"
)

// The programs of every test have the canary as the password of Redis. What this file searches for it, it searches for
// every program that a test starts: what they print, the list of processes, Redis' list of clients, the pages of the
// dashboard and what Redis writes down. TestASecretIsInNothingThatProgramsShow looks more closely at some.

// urlIn is where the URL of Redis is in the words of a command line; 0 for nowhere.
func urlIn(words []string) int {
	return 1 + slices.IndexFunc(words, func(word string) bool { return word == "--redis" || word == "-redis" })
}

// hiding is a program whose URL of Redis stands in its environment instead of its command line, which the list of
// processes shows.
func hiding(path string, words ...string) *exec.Cmd {
	cmd := exec.Command(path, words...)
	if n := urlIn(words); n > 0 {
		cmd = exec.Command(path, slices.Concat(words[:n-1], words[n+1:])...)
		cmd.Env = append(os.Environ(), "BELAY_REDIS_URL="+words[n])
	}
	return cmd
}

// printsNoCanary fails the test if the password is in a program's output.
func printsNoCanary(t *testing.T, path string) {
	t.Helper()
	if text := around(path); text != "" {
		t.Errorf("%s has the password of Redis: %s", filepath.Base(path), text)
	}
}

// around is a file's text before the password; empty if the password is not in it.
func around(path string) string {
	text, _ := os.ReadFile(path)
	before, _, found := bytes.Cut(text, []byte(canary))
	if !found {
		return ""
	}
	return string(before[max(0, len(before)-500):]) + canary
}

// storesNoCanary fails the test if the password is in what a server has written into its directory. Its file of
// users has no passwords, only their hashes.
func storesNoCanary(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			printsNoCanary(t, path)
		}
		return err
	}))
}

// shows is where others can see the password that a living program of the site has: in Redis' list of clients or, once
// for each site, on a page of the dashboard. A server that a test has left stopped shows nothing.
func (s *site) shows() (places []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	clients, err := s.server.Do(ctx, "CLIENT", "LIST")
	if err != nil {
		return nil
	}
	if text := fmt.Sprint(clients); strings.Contains(text, canary) {
		places = append(places, "clients: "+text)
	}
	if s.dashboard != nil {
		s.dashboard.Do(func() { places = append(places, s.pagesWithCanary()...) })
	}
	return places
}

// looked fails the test if the list of processes shows the password that a living program has, or if the program has
// given it to one that it started.
func (p *process) looked() {
	if given := givenIn(p.pid, nil); given != "" {
		p.t.Errorf("a process shows the password of Redis: %s", given)
	}
}

// givenIn is the command line of a process, or of one that it has started, that shows the password in it, or in its
// environment if it has a parent in the search: the first process has the password there. Empty for none.
func givenIn(pid int, parent []byte) string {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	line, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may have ended
	shown := line
	if parent != nil {
		// One that is just being started still is its parent, and shows the parent's environment.
		if bytes.Equal(line, parent) {
			return ""
		}
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		shown = slices.Concat(environ, line)
	}
	if bytes.Contains(shown, []byte(canary)) {
		return string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
	}
	threads, _ := filepath.Glob(filepath.Join(dir, "task", "*", "children"))
	for _, thread := range threads {
		children, _ := os.ReadFile(thread)
		for _, word := range strings.Fields(string(children)) {
			if number, err := strconv.Atoi(word); err == nil {
				if found := givenIn(number, line); found != "" {
					return found
				}
			}
		}
	}
	return ""
}

// maxPages is how many pages of a dashboard are searched: those that its first page leads to, and some that these lead
// to.
const maxPages = 40

var linkIn = regexp.MustCompile(`href="([^"#]+)"`)

// pagesWithCanary are the pages of a dashboard that show the password which the dashboard itself has, or any other
// program of the site.
func (s *site) pagesWithCanary() (places []string) {
	s.t.Helper()
	dashboard, err := web.New(s.straight().clientOf(check.RoleDashboard), web.Config{ReadOnly: true})
	require.NoError(s.t, err)
	defer func() { _ = dashboard.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	pages := []string{"/", "/redis", "/metrics", "/series.json"}
	for n := 0; n < len(pages) && n < maxPages && ctx.Err() == nil; n++ {
		answer := httptest.NewRecorder()
		dashboard.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, pages[n], nil).WithContext(ctx))
		body := answer.Body.String()
		if strings.Contains(body+fmt.Sprint(answer.Header()), canary) {
			places = append(places, "page: "+pages[n])
		}
		at, err := url.Parse(pages[n])
		require.NoError(s.t, err)
		for _, link := range linkIn.FindAllStringSubmatch(body, -1) {
			to, err := at.Parse(html.UnescapeString(link[1]))
			if err == nil && to.Host == "" && !strings.HasPrefix(to.Path, "/assets/") && !slices.Contains(pages, to.String()) {
				pages = append(pages, to.String())
			}
		}
	}
	return places
}

// Whoever shows the password is found: a worker whose tag it is, and the name of its connections, and that prints it and
// gives it to a program.
func TestACanaryIsFoundWhereverItIsShown(t *testing.T) {
	t.Parallel()
	server, dir := recorded(t)
	s := newSite(t, server)
	path := filepath.Join(t.TempDir(), "printed")
	file, err := os.Create(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	words := []string{"work", "--redis", s.urlOf(check.RoleWorker) + "?client_name=" + canary, "--prefix", s.prefix, "--tag", canary, "--exec", "Any=true"}
	cmd := hiding(belayPath, words...)
	cmd.Stdout, cmd.Stderr = file, file
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	eventually(t, "the worker's record", func() bool { return len(s.set(s.keys.Alive())) > 0 })
	eventually(t, "each place to be found", func() bool {
		s.dashboard = new(sync.Once)
		places := strings.Join(s.shows(), "\n")
		return strings.Contains(places, "clients: ") && strings.Contains(places, "page: /busy")
	})
	require.Contains(t, givenIn(cmd.Process.Pid, nil), "--tag")
	stored := filepath.Join(dir, "appendonlydir")
	require.NoError(t, filepath.WalkDir(stored, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".incr.aof") {
			require.NotEmpty(t, around(path))
		}
		return err
	}))
	require.NoError(t, os.WriteFile(path, []byte("an error: "+s.url), 0o600))
	require.Contains(t, around(path), "an error: ")

	child := exec.Command("sh", "-c", "sleep 60; true")
	child.Env = append(os.Environ(), "GIVEN="+canary)
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-child.Process.Pid, syscall.SIGKILL)
		_ = child.Wait()
	})
	eventually(t, "what the child was given", func() bool { return strings.Contains(givenIn(child.Process.Pid, nil), "sleep") })
}

// straight is the site past a proxy, if one server has it: the faults of a proxy are for the programs.
func (s *site) straight() *site {
	if s.server == nil || !strings.HasPrefix(s.url, "redis://") {
		return s
	}
	_, query, shards := strings.Cut(s.url, "?")
	other := s.by(s.server.URL())
	if shards {
		other.url += "?" + query
	}
	return other
}
