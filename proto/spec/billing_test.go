package spec

import (
	"maps"
	"testing"
)

// TestBillingWeights has the example of TRESBillingWeights in slurm.conf(5):
// "mem=.25" is by the MiB, "mem=.25G" by the GiB.
func TestBillingWeights(t *testing.T) {
	for text, want := range map[string]map[string]float64{
		"CPU=1.0,Mem=0.25G,GRES/gpu=2.0":     {"cpu": 1, "mem": 0.25, "gres/gpu": 2},
		"mem=.25":                            {"mem": 256},
		"mem=.25g, node=3 ,License/Matlab=1": {"mem": 0.25, "node": 3, "license/Matlab": 1},
		"mem=1M,gres/GPU:A100=7.5":           {"mem": 1024, "gres/gpu:a100": 7.5},
		"mem=1K":                             {"mem": 1 << 20},
		"mem=2T":                             {"mem": 2.0 / 1024},
	} {
		got, err := ParseBillingWeights(text)
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
		again, err := ParseBillingWeights(FormatBillingWeights(want))
		if err != nil || !maps.Equal(again, want) {
			t.Errorf("%q is written %q, which is %v %v", text, FormatBillingWeights(want), again, err)
		}
	}
	for _, text := range []string{"", "cpu", "cpu=", "cpu=x", "cpu=1e3", "cpu=-1", "cpu=1.", "cpu=1G", "cpu=0x1", "cpu=Inf", "cpu=NaN", "cpu=1_0", "cpu=1,cpu=2",
		"mem=G", "gpu=1", "gres/fpga=1", "gres/gpu:=1", "gres/gpu:a b=1", "license/=1", "=1", ",", "cpu=1,,mem=1", "cpu=1111111111111111111111111"} {
		if got, err := ParseBillingWeights(text); err == nil {
			t.Errorf("%q: %v, want a refusal", text, got)
		}
	}
}

func FuzzBillingWeights(f *testing.F) {
	for _, seed := range []string{"CPU=1.0,Mem=0.25G,GRES/gpu=2.0", "mem=.25", "node=1,license/x=3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		weights, err := ParseBillingWeights(text)
		if err != nil {
			return
		}
		for name, weight := range weights {
			if canonical, err := TRESName(name); err != nil || canonical != name || !(weight >= 0) {
				t.Errorf("%q has the weight %v of %q", text, weight, name)
			}
		}
		again, err := ParseBillingWeights(FormatBillingWeights(weights))
		if len(weights) > 0 && err == nil && !maps.Equal(again, weights) {
			t.Errorf("%q is %v, and written %v", text, weights, again)
		}
	})
}
