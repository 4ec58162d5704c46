package show

import (
	"cmp"
	"maps"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// standardStream is one of a batch script's three.
type standardStream int

const (
	standardOutput standardStream = iota
	standardError
	standardInput
)

// standardFile is the path of a stream's file, with its symbols replaced as
// far as they are known: an array whose tasks wait keeps %a.
func standardFile(r *JobRow, stream standardStream) string {
	asked := r.job.GetSpec()
	pattern := asked.GetStandardInput()
	switch stream {
	case standardInput:
		pattern = cmp.Or(pattern, "/dev/null")
	case standardError:
		pattern = cmp.Or(asked.GetStandardError(), asked.GetStandardOutput(), spec.DefaultOutput(r.job.GetArrayJobId() != 0))
	case standardOutput:
		pattern = cmp.Or(asked.GetStandardOutput(), spec.DefaultOutput(r.job.GetArrayJobId() != 0))
	}
	path := pattern
	if !r.waiting() {
		values := spec.FileNames{
			JobID: r.job.GetId().GetJob(), ArrayJobID: r.arrayJob(), ArrayTask: r.firstTask(), IsArray: r.tasks() != "",
			JobName: asked.GetName(), User: r.job.GetOwner().GetUser(), Node: r.job.BatchHost,
		}
		if expanded, err := spec.ExpandFileName(pattern, values); err == nil {
			path = expanded
		}
	}
	return spec.BelowWorkDirectory(path, asked.GetWorkDirectory())
}

// allocatedGres is what a job holds of one node's GPUs, with their indices:
// "gpu:a100:2(IDX:0-1)".
func allocatedGres(node *pb.NodeAllocation) string {
	devices := make([]gresDevice, 0, len(node.Devices))
	for _, device := range node.Devices {
		devices = append(devices, gresDevice{model: device.Model, index: device.Index})
	}
	return gresWithIndices(devices)
}

// gresDevice is what is said of a device in a list of generic resources.
type gresDevice struct {
	model string
	index uint32
}

// gresWithIndices groups devices by model: "gpu:a100:2(IDX:0-1)"; "" for none.
func gresWithIndices(devices []gresDevice) string {
	byModel := map[string][]*pb.ArrayRange{}
	for _, device := range devices {
		byModel[device.model] = append(byModel[device.model], &pb.ArrayRange{First: device.index, Last: device.index, Step: 1})
	}
	text := ""
	for _, model := range slices.Sorted(maps.Keys(byModel)) {
		indices := spec.NormalizeRanges(byModel[model])
		text += ",gpu:" + cmp.Or(model, "none") + ":" + Digits(uint32(len(byModel[model]))) + "(IDX:" + indexText(indices) + ")"
	}
	if text == "" {
		return ""
	}
	return text[1:]
}

// indexText writes indices as Slurm does, in ranges of step 1 only.
func indexText(ranges []*pb.ArrayRange) string {
	plain := []*pb.ArrayRange{}
	for _, span := range ranges {
		if span.Step <= 1 {
			plain = append(plain, span)
			continue
		}
		for i := uint64(span.First); i <= uint64(span.Last); i += uint64(span.Step) {
			plain = append(plain, &pb.ArrayRange{First: uint32(i), Last: uint32(i), Step: 1})
		}
	}
	return spec.FormatArray(plain, 0)
}

// StandardFiles are the files of a job's three streams, as far as they are known.
func StandardFiles(job *pb.Job) (output, errors, input string) {
	r := &JobRow{job: job, view: &View{}}
	return standardFile(r, standardOutput), standardFile(r, standardError), standardFile(r, standardInput)
}
