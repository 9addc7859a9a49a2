package web_test

import (
	"context"
	"errors"
	"log"
	"net/http"

	"github.com/belayq/belay"
	"github.com/belayq/belay/web"
)

// A program mounts the dashboard under a path, behind its own authentication.
func Example() {
	client, err := belay.Open(context.Background(), "redis://localhost:6379/0", nil)
	if err != nil {
		log.Fatal(err)
	}
	dashboard, err := web.New(client, web.Config{
		Authorize: func(r *http.Request, act web.Act) error {
			if act.Name == "delete" && !isAdmin(r) {
				return errors.New("only administrators delete jobs")
			}
			return nil
		},
		User: func(r *http.Request) string { return r.Header.Get("X-Forwarded-User") },
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/jobs/", requireLogin(http.StripPrefix("/jobs", dashboard)))
}

func isAdmin(*http.Request) bool                  { return false }
func requireLogin(next http.Handler) http.Handler { return next }
