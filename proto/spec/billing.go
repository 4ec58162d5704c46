package spec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxWeightDigits bounds a weight as text; more digits say nothing.
const maxWeightDigits = 24

// weightScale is what a suffix of a weight of memory makes of it, per GiB. As
// in Slurm a weight without one is per MiB.
var weightScale = map[byte]float64{'K': 1 << 20, 'M': 1 << 10, 'G': 1, 'T': 1.0 / (1 << 10), 'P': 1.0 / (1 << 20)}

// ParseBillingWeights reads TRESBillingWeights as slurm.conf(5) has it, such
// as "CPU=1.0,Mem=0.25G,GRES/gpu=2.0": by the name of each TRES (TRESName), what
// one unit of it is billed. The unit of mem is a GiB.
func ParseBillingWeights(s string) (map[string]float64, error) {
	weights := map[string]float64{}
	for word := range strings.SplitSeq(s, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(word), "=")
		if !found {
			return nil, fmt.Errorf("invalid weights %q: write them as CPU=1.0,Mem=0.25G,GRES/gpu=2.0", shorten(s))
		}
		name, err := TRESName(name)
		if err != nil {
			return nil, err
		}
		if _, twice := weights[name]; twice {
			return nil, fmt.Errorf("%s has two weights: leave one", name)
		}
		if weights[name], err = ParseBillingWeight(name, value); err != nil {
			return nil, err
		}
	}
	return weights, nil
}

// ParseBillingWeight reads the weight of one TRES, whose name is one that
// TRESName answers.
func ParseBillingWeight(name, s string) (float64, error) {
	number, scale := s, 1.0
	if name == "mem" {
		scale = weightScale['M']
		if suffix, is := weightScale[upper(lastByte(number))]; is {
			number, scale = number[:len(number)-1], suffix
		}
	}
	whole, fraction, hasFraction := strings.Cut(number, ".")
	digits := whole + fraction
	if !allDigits(digits) || hasFraction && fraction == "" || len(digits) > maxWeightDigits {
		form := "a number such as 1.0"
		if name == "mem" {
			form = "a number such as 0.25G, by the gigabyte"
		}
		return 0, fmt.Errorf("%s: %q is no weight: write %s", name, shorten(s), form)
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is no weight: write a number such as 1.0", name, shorten(s))
	}
	return value * scale, nil
}

func upper(c byte) byte {
	if c >= 'a' && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}

// FormatBillingWeights writes weights as ParseBillingWeights reads them, in
// the order of the names; "" for none.
func FormatBillingWeights(weights map[string]float64) string {
	words := make([]string, 0, len(weights))
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		word := name + "=" + strconv.FormatFloat(weights[name], 'f', -1, 64)
		if name == "mem" {
			word += "G"
		}
		words = append(words, word)
	}
	return strings.Join(words, ",")
}

// TRESName is the name of a TRES in the form in which it is kept: "CPU" is
// "cpu", "GRES/gpu:A100" is "gres/gpu:a100". It returns cpu, mem, node,
// billing, gres/gpu, gres/gpu:MODEL and license/NAME.
func TRESName(s string) (string, error) {
	name := strings.ToLower(strings.TrimSpace(s))
	switch name {
	case "cpu", "mem", "node", "billing", "gres/gpu":
		return name, nil
	}
	if model, found := strings.CutPrefix(name, "gres/gpu:"); found && validModel(model) {
		return name, nil
	}
	if kind, license, found := strings.Cut(strings.TrimSpace(s), "/"); found && strings.EqualFold(kind, "license") && validModel(license) {
		return "license/" + license, nil
	}
	return "", fmt.Errorf("there is no TRES %q: use cpu, mem, node, gres/gpu, gres/gpu:MODEL or license/NAME", shorten(s))
}
