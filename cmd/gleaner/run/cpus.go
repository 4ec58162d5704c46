package run

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// readCPUBind reads --cpu-bind: words joined by commas, of which the last may have a
// list of its own.
func readCPUBind(values option.Values, cpusPerTask int) (*step.CPUBind, error) {
	text := values.Text(optCPUBind)
	bind := &step.CPUBind{CPUsPerTask: cpusPerTask}
	for rest := text; rest != ""; {
		word, after, _ := strings.Cut(rest, ",")
		kind, list, listed := strings.Cut(rest, ":")
		switch {
		case word == "v" || word == "verbose":
			bind.Verbose = true
		case word == "q" || word == "quiet":
			bind.Verbose = false
		case word == "no" || word == "none":
			bind.Kind = step.BindNone
		case word == "threads" || word == "rank" || word == "yes":
			bind.Kind = step.BindThreads
		case word == "cores":
			bind.Kind = step.BindCores
		case word == "sockets":
			bind.Kind = step.BindSockets
		case listed && (kind == "map_cpu" || kind == "mask_cpu"):
			var ok bool
			bind.Kind, after = step.BindSets, ""
			if bind.Sets, ok = readCPUSets(kind, list); !ok {
				return nil, option.Fail(255, "Invalid --%s specification: %.64q: type CPUs as in map_cpu:0,1, or masks of them as in mask_cpu:0x3,0xC", optCPUBind, text)
			}
		case strings.Contains(word, "ldom") || strings.HasPrefix(word, "map_") || strings.HasPrefix(word, "mask_"):
			return nil, option.Fail(1, "--%s=%.64s is not supported: NUMA domains are not known here; name the CPUs with map_cpu or mask_cpu", optCPUBind, word)
		default:
			return nil, option.Fail(255, "Invalid --%s specification: %.64q: type none, threads, cores, sockets, rank, map_cpu:LIST or mask_cpu:LIST, after verbose or quiet", optCPUBind, text)
		}
		rest = after
	}
	return bind, nil
}

// readCPUSets reads "0,2*2" or "0x3,0xC".
func readCPUSets(kind, list string) ([][]int, bool) {
	var sets [][]int
	for word := range strings.SplitSeq(list, ",") {
		word, repeat, repeated := strings.Cut(word, "*")
		times := uint64(1)
		if repeated {
			var err error
			if times, err = strconv.ParseUint(repeat, 10, 12); err != nil || times < 1 {
				return nil, false
			}
		}
		set, ok := readCPUSet(kind, word)
		if !ok || len(sets)+int(times) > step.MaxTasks {
			return nil, false
		}
		for range times {
			sets = append(sets, set)
		}
	}
	return sets, true
}

func readCPUSet(kind, word string) ([]int, bool) {
	if kind == "map_cpu" {
		cpu, err := strconv.ParseUint(word, 0, 16)
		return []int{int(cpu)}, err == nil && cpu < step.MaxCPU
	}
	digits := strings.TrimPrefix(strings.TrimPrefix(word, "0x"), "0X")
	mask, ok := new(big.Int).SetString(digits, 16)
	if !ok || len(digits) > step.MaxCPU/4 || mask.Sign() <= 0 {
		return nil, false
	}
	var set []int
	for cpu := range mask.BitLen() {
		if mask.Bit(cpu) == 1 {
			set = append(set, cpu)
		}
	}
	return set, true
}
