package scenario

import (
	"io"
	"net/http"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func init() { commands["scrape"] = scrape }

// scrape is `scrape URL`: gets a page as Prometheus does; `! scrape` expects
// that nothing answers there.
func scrape(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: scrape URL")
	}
	client := http.Client{Timeout: patience(20 * time.Second)}
	answer, err := client.Get(args[0])
	if neg {
		if err == nil {
			_ = answer.Body.Close()
			ts.Fatalf("%s answers: %s", args[0], answer.Status)
		}
		return
	}
	ts.Check(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	ts.Check(err)
	if answer.StatusCode != http.StatusOK {
		ts.Fatalf("%s: %s", args[0], answer.Status)
	}
	_, err = ts.Stdout().Write(text)
	ts.Check(err)
}
