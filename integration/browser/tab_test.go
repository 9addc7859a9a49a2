package browser

import (
	"context"
	_ "embed"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// A tab is a tab of a browser of its own. It keeps what goes wrong in its pages.
type tab struct {
	t       *testing.T
	ctx     context.Context
	folder  string
	dismiss bool // the next questions of a page

	mutex    sync.Mutex
	problems []string
	asked    []string
}

// newTab starts a browser that ends with the test.
func newTab(t *testing.T) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, // the sandbox does not start as root or in most containers; the pages are our own
		chromedp.WSURLReadTimeout(patience), chromedp.DisableGPU, chromedp.Flag("lang", "en-GB"), chromedp.Flag("hide-scrollbars", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	b := &tab{t: t, ctx: ctx, folder: folder(t)}
	started := make(chan error, 1)
	go func() { started <- chromedp.Listen(ctx, b.hear) }()
	select {
	case err := <-started:
		require.NoError(t, err, "start chromium; apt-get install chromium has it")
	case <-time.After(patience):
		require.FailNow(t, "chromium does not start")
	}
	answers := chromedp.Events(ctx, page.JavascriptDialogOpening)
	go func() {
		for event, err := range answers {
			if err != nil {
				return
			}
			b.mutex.Lock()
			b.asked = append(b.asked, event.Message)
			accept := !b.dismiss
			b.mutex.Unlock()
			_, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: accept})
		}
	}()
	b.size(1280)
	return b
}

// hear keeps the problems that the browser reports, violations of the Content-Security-Policy among them.
func (b *tab) hear(event any) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			problem += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		problem = "console." + string(e.Type)
		for _, arg := range e.Args {
			problem += " " + string(arg.Value) + arg.Description
		}
	case *log.EventEntryAdded:
		problem = fmt.Sprintf("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *network.EventLoadingFailed:
		if !e.Canceled { // a new page ends the requests of the old one
			problem = "request failed: " + e.ErrorText + " " + string(e.BlockedReason)
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			problem = fmt.Sprintf("status %d: %s", e.Response.Status, e.Response.URL)
		}
	}
	if problem != "" {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		b.problems = append(b.problems, problem)
	}
}

// takeProblems returns what went wrong since the last call.
func (b *tab) takeProblems() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	problems := b.problems
	b.problems = nil
	return problems
}

// takeAsked returns the questions that pages asked since the last call.
func (b *tab) takeAsked() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	questions := b.asked
	b.asked = nil
	return questions
}

// do runs actions, within the bound.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, actions...))
}

//go:embed testdata/page.js
var pageScript string

// try evaluates an expression on the page, which may call the functions of page.js as testing.name().
func try[T any](b *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](
		"(() => { if (!window.testing) "+pageScript+"; return ("+expression+") })()"))
}

// eval is try on a page that stays.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := try[T](b, expression)
	require.NoError(b.t, err, expression)
	return value
}

// until waits until an expression is true on the page, whatever pages come in between.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	eventually(b.t, what+" in the browser", func() bool {
		holds, err := try[bool](b, "document.readyState === 'complete' && !!("+expression+")")
		return err == nil && holds
	})
}

// open goes to a page and waits until it has loaded, and a search has come to its end.
func (b *tab) open(to string) {
	b.t.Helper()
	b.do(chromedp.Navigate(to))
	b.until("the page "+to, "!document.querySelector('form[method=get][data-continue]')")
}

// click presses the element that an expression finds with the mouse. It fails if a user could not press it.
func (b *tab) click(expression string) {
	b.t.Helper()
	var at []float64
	eventually(b.t, "pressing "+expression, func() bool { // a refresh may move it away from the mouse
		var err error
		at, err = try[[]float64](b, "testing.middle("+expression+")")
		if err != nil && strings.Contains(err.Error(), "cannot be pressed") {
			return false
		}
		require.NoError(b.t, err, expression)
		return true
	})
	b.do(chromedp.MouseClickXY(at[0], at[1]))
}

// send presses a button that sends a form, and waits for the page that follows.
func (b *tab) send(expression string) {
	b.t.Helper()
	eval[bool](b, "window.old = true")
	b.click(expression)
	b.until("the answer to "+expression, "!window.old")
}

// height returns that of the window by its width: a desk's or a phone's, both long enough to show most of a page.
func height(width int64) int64 {
	if width < 600 {
		return 1400
	}
	return 1200
}

// size sets the width of the window.
func (b *tab) size(width int64) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	_, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height(width), DeviceScaleFactor: 1, Mobile: width < 600})
	require.NoError(b.t, err)
}

// prefer sets what the user prefers: light or dark.
func (b *tab) prefer(scheme string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	require.NoError(b.t, err)
}

// scripts switches JavaScript off and on for the pages that follow.
func (b *tab) scripts(on bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
	require.NoError(b.t, err)
}

// picture writes a screenshot of the window.
func (b *tab) picture(name string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	image, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(b.folder, name+".png"), image, 0o600))
}

var unsafe = regexp.MustCompile(`[^a-z0-9]+`)

// nameOf returns a file name for a page.
func nameOf(kind string) string {
	text, err := url.QueryUnescape(kind)
	if err != nil {
		text = kind
	}
	return strings.Trim(unsafe.ReplaceAllString(strings.ToLower(text), "-"), "-")
}
