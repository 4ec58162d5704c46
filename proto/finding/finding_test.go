package finding

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Findings come in the order of the checks, whatever becomes of each.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		begin := time.Now()
		found := Run(t.Context(), []Check{
			{Name: "hangs", Limit: 3 * time.Second, Run: func(context.Context) []Finding { <-released; return nil }},
			{Name: "slow", Run: func(context.Context) []Finding {
				time.Sleep(time.Second)
				return []Finding{Good("slow", "two"), Good("slow", "three")}
			}},
			{Name: "panics", Run: func(context.Context) []Finding { panic("unheard of") }},
			{Name: "obeys", Limit: 2 * time.Second, Run: func(ctx context.Context) []Finding {
				<-ctx.Done()
				return []Finding{Unseen("obeys", ctx.Err().Error())}
			}},
		})
		var words []string
		for _, f := range found {
			first, _, _ := strings.Cut(f.Seen, "\n")
			words = append(words, f.Check+" "+string(f.Status)+" "+first)
		}
		want := `hangs failed the check did not come back within 3s
slow ok two
slow ok three
panics skipped the check itself failed, which is an error of this program: unheard of
obeys skipped context deadline exceeded`
		if got := strings.Join(words, "\n"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if took := time.Since(begin); took != 3*time.Second+grace {
			t.Errorf("it took %v", took)
		}
		close(released)
	})
}
