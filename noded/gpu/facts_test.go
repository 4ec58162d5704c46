package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
)

const someGPU = "GPU-00112233-4455-6677-8899-aabbccddeeff"

// TestAskFacts: what the other process says is taken, and what became of it
// told; one that hangs is left behind.
func TestAskFacts(t *testing.T) {
	facts := cuda.Facts{Driver: "580.65.06", GPUs: []cuda.GPU{{UUID: someGPU, Model: "NVIDIA H100"}}, Used: map[int]uint64{7: 1 << 30}}
	text, err := json.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(script string, within time.Duration) (cuda.Facts, error) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return AskFacts(ctx, []string{"sh", "-c", script, "sh"}, []string{someGPU})
	}
	got, err := ask(`test "$1" = `+someGPU+` && echo '`+string(text)+`'`, time.Minute)
	if err != nil || !reflect.DeepEqual(got, facts) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ask("echo 'gnoded: no NVIDIA driver: not found' >&2; exit 1", time.Minute); err == nil || !strings.HasSuffix(err.Error(), "GPUs: no NVIDIA driver: not found") {
		t.Errorf("%v", err)
	}
	if _, err := ask("echo '{}'", time.Minute); err == nil || !strings.Contains(err.Error(), "about 0, not 1") {
		t.Errorf("%v", err)
	}
	if _, err := ask("exec sleep 1000", 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that hangs: %v", err)
	}
}

// FuzzFacts: what is read is about the GPUs that were asked about.
func FuzzFacts(f *testing.F) {
	for _, seed := range []string{`{"Driver":"580","GPUs":[{"UUID":"` + someGPU + `","Model":"x","MIG":false}],"Used":{"7":1},"FreeBytes":0}`, `{}`, `null`, `{"GPUs":[{}]}`, `{"Used":{"x":1}}`, "["} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		facts, err := DecodeFacts(data, []string{someGPU})
		switch {
		case err != nil && len(err.Error()) > 1024:
			t.Fatalf("an error of %d bytes", len(err.Error()))
		case err == nil && (len(facts.GPUs) != 1 || facts.GPUs[0].UUID != someGPU):
			t.Fatalf("%+v", facts)
		}
	})
}
