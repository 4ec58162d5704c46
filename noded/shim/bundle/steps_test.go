package bundle

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

func TestParseSteps(t *testing.T) {
	steps := parseSteps(strings.NewReader(`{"step":0,"name":"a","tasks":2,"start_ms":5}
{"step":1,"name":"b","tasks":1,"cpus":3,"start_ms":6}
{"step":0,"name":"a","tasks":2,"start_ms":5,"end_ms":9,"code":3,"sum":{"user_us":7},"most":{"memory_kib":2}}
not JSON
{"step":2,"tasks":-1,"start_ms":-5,"end_ms":1,"code":-1,"sum":{"user_us":9223372036854775807},"name":"x\u001b[2Jy"}
{"step":4,"na`))
	want := `steps:{step:0 name:"a" tasks:2 start_ms:5 end_ms:9 exit_code:3 user_us:7 peak_memory_bytes:2048} ` +
		`steps:{step:2 name:"x[2Jy" end_ms:1 exit_code:255 user_us:1125899906842624} steps:{step:1 name:"b" tasks:1 start_ms:6 cpus:3}`
	if got := strings.Join(strings.Fields(strings.ReplaceAll(fmt.Sprint(steps), "steps:{name", "steps:{step:0 name")), " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if steps := parseSteps(strings.NewReader("{}")); len(steps.GetSteps()) != 1 {
		t.Errorf("%v", steps)
	}
	if steps := parseSteps(strings.NewReader("")); steps != nil {
		t.Errorf("none: %v", steps)
	}
}

// TestParseManySteps: the last ones are told, and how many came before; all together are
// small.
func TestParseManySteps(t *testing.T) {
	const number = 10_000
	var text strings.Builder
	for i := range number {
		fmt.Fprintf(&text, `{"step":%d,"name":"train.py","tasks":4,"start_ms":1700000000000}`+"\n", i)
		fmt.Fprintf(&text, `{"step":%d,"name":"train.py","tasks":4,"cpus":4,"start_ms":1700000000000,"end_ms":1700000001000,"sum":{"user_us":123456,"system_us":4321,"memory_kib":200000,"read_bytes":5000000},"most":{"memory_kib":50000,"read_bytes":2000000},"most_rank":{"memory":3},"least_us":3000}`+"\n", i)
	}
	steps := parseSteps(strings.NewReader(text.String()))
	if len(steps.Steps) != MaxSteps || steps.Omitted != number-MaxSteps || steps.Steps[0].Step != number-MaxSteps || steps.Steps[MaxSteps-1].Step != number-1 {
		t.Errorf("%d steps from %d on, %d omitted", len(steps.Steps), steps.Steps[0].Step, steps.Omitted)
	}
	if size := proto.Size(steps); size > 100<<10 {
		t.Errorf("%d bytes", size)
	}
}

func FuzzParseSteps(f *testing.F) {
	f.Add(`{"step":0,"name":"a","tasks":2,"start_ms":5}` + "\n" + `{"step":0,"end_ms":9,"code":3}`)
	f.Fuzz(func(t *testing.T, text string) {
		steps := parseSteps(strings.NewReader(text))
		if len(steps.GetSteps()) > MaxSteps {
			t.Fatalf("%d steps", len(steps.GetSteps()))
		}
		if _, err := proto.Marshal(steps); err != nil {
			t.Fatal(err)
		}
	})
}
