package spec

import (
	"fmt"
	"strconv"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// ParseGres reads the argument of --gres: "gpu:2", "gpu:a100:2", "gpu" or
// "gpu:a100" (one of each). "none" and a count of 0 ask for nothing and give
// no request. A job gets GPUs of one model, so a list with several entries for
// GPUs is refused; commas that end it are not, as programs write them. Models are in
// lower case.
func ParseGres(s string, scope pb.GpuScope) ([]*pb.GpuRequest, error) {
	if strings.EqualFold(s, "none") {
		return nil, nil
	}
	words := strings.Split(strings.TrimRight(s, ","), ",")
	if len(words) > 1 {
		return nil, fmt.Errorf("invalid gres %q: a job gets GPUs of one model, type one entry such as gpu:2 or gpu:a100:2", shorten(s))
	}
	name, rest, hasRest := cutGresName(words[0])
	if name != "gpu" {
		return nil, fmt.Errorf("invalid gres %q: only gpu is known, type gpu:2 or gpu:a100:2", shorten(s))
	}
	if !hasRest {
		rest = "1"
	}
	return parseGPUs(rest, scope, fmt.Sprintf("invalid gres %q: type gpu:2 or gpu:a100:2", shorten(s)))
}

// cutGresName takes "gpu" off "gres:gpu:2", "gres/gpu:2" or "gpu:2".
func cutGresName(s string) (name, rest string, hasRest bool) {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "gres:"), "gres/")
	name, rest, hasRest = strings.Cut(s, ":")
	return strings.ToLower(name), rest, hasRest
}

// ParseGPUs reads the argument of --gpus and --gpus-per-node: "2", "a100:2" or
// "a100" (one). "gpu:2" and "gpu:a100:2" are taken as well. A count of 0 gives
// no request.
func ParseGPUs(s string, scope pb.GpuScope) ([]*pb.GpuRequest, error) {
	if strings.Contains(s, ",") {
		return nil, fmt.Errorf("invalid number of GPUs %q: a job gets GPUs of one model, type 2 or a100:2", shorten(s))
	}
	rest := s
	if name, after, found := cutGresName(s); found && name == "gpu" {
		rest = after
	}
	return parseGPUs(rest, scope, fmt.Sprintf("invalid number of GPUs %q: type 2 or a100:2", shorten(s)))
}

// parseGPUs reads "2", "a100:2" or "a100"; refusal is the error's text.
func parseGPUs(s string, scope pb.GpuScope, refusal string) ([]*pb.GpuRequest, error) {
	model, countText, hasCount := strings.Cut(strings.ToLower(s), ":")
	var valid bool
	switch {
	case hasCount:
		valid = validModel(model)
	case allDigits(model):
		model, countText, valid = "", model, true
	default: // a model alone begins with a letter, so that "1.5" is none
		countText, valid = "1", validModel(model) && !isDigit(model[0])
	}
	if !valid || !allDigits(countText) {
		return nil, Sentence(refusal)
	}
	count, err := strconv.ParseUint(countText, 10, 64)
	if err != nil || count > MaxGPUs {
		return nil, fmt.Errorf("%s GPUs are too many: at most %d", shorten(countText), MaxGPUs)
	}
	if count == 0 {
		return nil, nil
	}
	return []*pb.GpuRequest{{Scope: scope, Count: uint32(count), Model: model}}, nil
}

func validModel(s string) bool { return len(s) <= MaxHostNameBytes && ValidWord(s) }

// ValidWord reports whether s is what a GPU or a feature of a node may be called: a word of
// letters, digits, '_', '.' and '-' that begins with neither of the last two. Users' shells
// and scripts read such words, and those who have a node choose them.
func ValidWord(s string) bool {
	if s == "" || s[0] == '-' || s[0] == '.' {
		return false
	}
	for i := range len(s) {
		if !hostByte(s[i]) {
			return false
		}
	}
	return true
}

// FormatGres writes GPU requests as Slurm's gres, "gpu:2" or "gpu:a100:2"; ""
// for none.
func FormatGres(gpus []*pb.GpuRequest) string {
	words := make([]string, len(gpus))
	for i, gpu := range gpus {
		words[i] = "gpu:" + strconv.FormatUint(uint64(gpu.GetCount()), 10)
		if gpu.GetModel() != "" {
			words[i] = fmt.Sprintf("gpu:%s:%d", gpu.GetModel(), gpu.GetCount())
		}
	}
	return strings.Join(words, ",")
}
