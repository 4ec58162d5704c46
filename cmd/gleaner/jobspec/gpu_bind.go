package jobspec

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// GPUBind says which of its step's GPUs on its node a task sees.
type GPUBind struct {
	Kind  string
	Count int     // per_task, single
	sets  [][]int // map_gpu, mask_gpu: of the task with this local number, again and again
}

// Kinds of --gpu-bind. That of "" is per_task where the step has GPUs for each task.
const (
	GPUBindNone    = "none"
	GPUBindClosest = "closest"
	GPUBindEach    = "per_task"
	gpuBindSingle  = "single"
	gpuBindMap     = "map_gpu"
	gpuBindMask    = "mask_gpu"
)

// maxGPUNumber bounds the numbers of GPUs in lists and masks.
const maxGPUNumber = 1024

// ReadGPUBind reads --gpu-bind. What is said of the sockets that GPUs are close to is
// left out: it is not known here.
func ReadGPUBind(text string) (GPUBind, error) {
	whole := text
	for _, word := range []string{"verbose,", "v,", "quiet,", "q,"} {
		text = strings.TrimPrefix(text, word)
	}
	kind, argument, _ := strings.Cut(text, ":")
	bind, ok := GPUBind{Kind: kind}, true
	switch kind {
	case "", GPUBindNone:
		ok = argument == ""
	case GPUBindEach, gpuBindSingle:
		number, err := strconv.ParseUint(argument, 10, 20)
		bind.Count, ok = int(number), err == nil && number > 0
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
	case GPUBindClosest:
		bind.Kind, ok = "", argument == ""
	default:
		ok = false
	}
	if !ok {
		return bind, option.Fail(1, "Invalid --%s specification: %.64q: type none, per_task:COUNT, single:TASKS, map_gpu:LIST or mask_gpu:LIST", OptGPUBind, whole)
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

// OfTask are the GPUs of the task with a local number, counted among those of the step
// on its node; nil = all of them.
func (b GPUBind) OfTask(local, have int) ([]int, error) {
	var own []int
	switch b.Kind {
	case GPUBindEach:
		for i := range b.Count {
			own = append(own, local*b.Count+i)
		}
	case gpuBindSingle:
		if have > 0 {
			own = []int{local / b.Count % have}
		}
	case gpuBindMap, gpuBindMask:
		own = b.sets[local%len(b.sets)]
	default:
		return nil, nil
	}
	if slices.ContainsFunc(own, func(gpu int) bool { return gpu >= have }) {
		return nil, option.Fail(1, "Invalid generic resource (gres) specification: --%s gives a task GPU %d of its step's, which has %d on its node", OptGPUBind, slices.Max(own), have)
	}
	return own, nil
}
