package metrics_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A dashboard has the parts of Grafana's format that the test reads.
type dashboard struct {
	UID, Title string
	Panels     []struct {
		ID          int
		Type, Title string
		Description string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ Expr, LegendFormat string }
	}
	Templating  struct{ List []variable }
	Annotations struct {
		List []struct{ Target struct{ Expr string } }
	}
}

type variable struct {
	Name, Type string
	Query      json.RawMessage // an object, or for a data source its type
}

var (
	metricName  = regexp.MustCompile(`\bbelay_[a-z_]+`)
	legendLabel = regexp.MustCompile(`{{(\w+)}}`)
	// sumOfShards matches the metrics of the fleet that are parts of a sum where there are shards.
	sumOfShards = regexp.MustCompile(`max.*belay_(queue_jobs|queue_quarantined_jobs|scheduled_jobs|retry_jobs|dead_jobs|batches|fleet_)`)
	labelValues = regexp.MustCompile(`label_values\((\w+), (\w+)\)`)
	// filled replaces Grafana's variables, as Grafana does for the choice "All".
	filled = strings.NewReplacer("$queue", ".*", "$class", ".*", "$__rate_interval", "10s")
)

// requireDashboard requires that the Prometheus at address has data for each query of Grafana's dashboard, and
// that the dashboard and the alert rules name only metrics that the collector exposes.
func requireDashboard(t *testing.T, address, exposed, rules string) {
	t.Helper()
	text, err := os.ReadFile("../contrib/grafana/belay.json")
	require.NoError(t, err)
	var board dashboard
	require.NoError(t, json.Unmarshal(text, &board))
	alerts, err := os.ReadFile(rules)
	require.NoError(t, err)
	for _, name := range metricName.FindAllString(string(text)+string(alerts), -1) {
		family := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		require.True(t, strings.Contains(exposed, "# TYPE "+family+" "), "the collector has no %s", name) //nolint:testifylint // the text would drown the name
	}

	queries := board.queries(t)
	require.Greater(t, len(queries), 30, "the search found too few queries")
	for where, query := range queries {
		if sumOfShards.MatchString(query.text) {
			require.Contains(t, query.text, "shard)", "%s: the maximum of shards is not their sum", where)
		}
		require.NotContains(t, query.text, "$", "%s: a variable that this test does not fill in", where)
		deadline := time.Now().Add(patience)
		for len(series(address, query.text)) == 0 {
			require.True(t, time.Now().Before(deadline), "%s has no data: %s", where, query.text)
			time.Sleep(50 * time.Millisecond)
		}
		for _, label := range query.labels {
			require.Contains(t, series(address, query.text)[0].Metric, label[1], "%s: what its legend shows", where)
		}
	}
}

// A query is PromQL, and the labels that its series must have.
type query struct {
	text   string
	labels [][]string
}

// queries returns the queries of panels, variables and annotations, by place.
func (d *dashboard) queries(t *testing.T) map[string]query {
	t.Helper()
	found := map[string]query{}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, panel := range d.Panels {
		require.False(t, ids[panel.ID], "two panels have the id %d", panel.ID)
		ids[panel.ID] = true
		for x := panel.GridPos.X; x < panel.GridPos.X+panel.GridPos.W; x++ {
			require.Less(t, x, 24, "%s is beyond the grid", panel.Title)
			for y := panel.GridPos.Y; y < panel.GridPos.Y+panel.GridPos.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "%s covers another panel", panel.Title)
				taken[[2]int{x, y}] = panel.Title
			}
		}
		if panel.Type == "row" {
			continue
		}
		require.NotEmpty(t, panel.Targets, panel.Title)
		require.NotEmpty(t, panel.Description, panel.Title)
		for _, target := range panel.Targets {
			found[panel.Title+": "+target.Expr] = query{filled.Replace(target.Expr), legendLabel.FindAllStringSubmatch(target.LegendFormat, -1)}
		}
	}
	for _, variable := range d.Templating.List {
		if variable.Type != "query" {
			continue
		}
		match := labelValues.FindStringSubmatch(string(variable.Query))
		require.NotNil(t, match, "the variable %s", variable.Name)
		found["the variable "+variable.Name] = query{text: "count by (" + match[2] + ") (" + match[1] + "{" + match[2] + `!=""})`}
	}
	for _, annotation := range d.Annotations.List {
		// Nothing was recovered, so the comparison has no result, but its left side has one.
		compared, _, _ := strings.Cut(annotation.Target.Expr, " > ")
		found["an annotation"] = query{text: filled.Replace(compared)}
	}
	return found
}
