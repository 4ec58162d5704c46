package run

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// gpuBind says which of its step's GPUs on its node a task sees.
type gpuBind struct {
	kind  string
	count int     // per_task, single
	sets  [][]int // map_gpu, mask_gpu: of the task with this local number, again and again
}

// Kinds of --gpu-bind. That of "" is per_task where the step has GPUs for each task.
const (
	gpuBindNone   = "none"
	gpuBindEach   = "per_task"
	gpuBindSingle = "single"
	gpuBindMap    = "map_gpu"
	gpuBindMask   = "mask_gpu"
)

// maxGPUNumber bounds the numbers of GPUs in lists and masks.
const maxGPUNumber = 1024

func readGPUCount(long, text string) (int, error) {
	read := spec.ParseGPUs
	if long == jobspec.OptGres {
		read = spec.ParseGres
	}
	requests, err := read(text, pb.GpuScope_GPU_SCOPE_TASK)
	if err != nil {
		return 0, option.Fail(1, "Invalid --%s specification: %w", long, err)
	}
	count := 0
	for _, request := range requests {
		count += int(request.Count)
	}
	return count, nil
}

// readGPUBind reads --gpu-bind.
func readGPUBind(values option.Values) (gpuBind, error) {
	text := values.Text(optGPUBind)
	for _, word := range []string{"verbose,", "v,", "quiet,", "q,"} {
		text = strings.TrimPrefix(text, word)
	}
	kind, argument, _ := strings.Cut(text, ":")
	bind, ok := gpuBind{kind: kind}, true
	switch kind {
	case "", gpuBindNone:
		ok = argument == ""
	case gpuBindEach, gpuBindSingle:
		number, err := strconv.ParseUint(argument, 10, 20)
		bind.count, ok = int(number), err == nil && number > 0
	case gpuBindMap, gpuBindMask:
		for word := range strings.SplitSeq(argument, ",") {
			set, times, valid := readGPUSet(kind, word)
			if ok = ok && valid && len(bind.sets)+times <= maxGPUNumber; !ok {
				break
			}
			for range times {
				bind.sets = append(bind.sets, set)
			}
		}
	case "closest":
		return bind, option.Fail(1, "--%s=%.64s is not supported: it is not known here which GPUs are close to which CPUs; type per_task:COUNT, map_gpu:LIST or none", optGPUBind, kind)
	default:
		ok = false
	}
	if !ok {
		return bind, option.Fail(1, "Invalid --%s specification: %.64q: type none, per_task:COUNT, single:TASKS, map_gpu:LIST or mask_gpu:LIST", optGPUBind, values.Text(optGPUBind))
	}
	return bind, nil
}

// readGPUSet reads 2, 0x2 or, several times, 2*4.
func readGPUSet(kind, word string) (set []int, times int, ok bool) {
	word, repeat, repeated := strings.Cut(word, "*")
	times = 1
	if repeated {
		number, err := strconv.ParseUint(repeat, 10, 10)
		if err != nil || number < 1 {
			return nil, 0, false
		}
		times = int(number)
	}
	base := 0
	if kind == gpuBindMask {
		base, word = 16, strings.TrimPrefix(word, "0x")
	}
	number, err := strconv.ParseUint(word, base, 64)
	if kind == gpuBindMap {
		return []int{int(number % maxGPUNumber)}, times, err == nil && number < maxGPUNumber
	}
	for bit := range 64 {
		if number>>bit&1 == 1 {
			set = append(set, bit)
		}
	}
	return set, times, err == nil && len(set) > 0
}

// ofTask are the GPUs of the task with a local number, counted among those of the step
// on its node; nil = all of them.
func (b gpuBind) ofTask(local, have int) ([]int, error) {
	var own []int
	switch b.kind {
	case gpuBindEach:
		for i := range b.count {
			own = append(own, local*b.count+i)
		}
	case gpuBindSingle:
		if have > 0 {
			own = []int{local / b.count % have}
		}
	case gpuBindMap, gpuBindMask:
		own = b.sets[local%len(b.sets)]
	default:
		return nil, nil
	}
	if slices.ContainsFunc(own, func(gpu int) bool { return gpu >= have }) {
		return nil, option.Fail(1, "Invalid generic resource (gres) specification: --%s gives a task GPU %d of its step's, which has %d on its node", optGPUBind, slices.Max(own), have)
	}
	return own, nil
}
