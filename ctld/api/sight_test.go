package api

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// public are the fields of a job that every user may read, as scontrol(1) "show
// job" and squeue(1) show them to everybody; of each message, all that are
// public, separated by spaces. Messages are walked, so a field that holds one
// is public or not by that message's own fields.
var public = map[string]string{
	"Job": `id array_job_id waiting_tasks spec owner state completing configuring reason priority epoch restart_count special_exit
		submit_ms eligible_ms start_ms end_ms estimated_start_ms scheduled_nodes accrue_ms preempt_eligible_ms preempt_ms suspend_ms pre_suspend_ms ended_suspended
		partition time_limit_s node_list batch_host allocation cpus nodes billing exit_code exit_signal usage cancelled_by_uid saved park_bound_ms park_unbounded
		fills_hole`,
	"JobId":     `job array_task het_component`,
	"ArraySpec": `ranges max_running`, "ArrayRange": `first last step`,
	"JobSpec": `name partitions account qos comment wckey work_directory standard_output standard_error standard_input open_mode submit_host command
		min_nodes max_nodes tasks tasks_per_node cpus_per_task memory_per_node_bytes memory_per_cpu_bytes tmp_per_node_bytes gpus time_limit_s time_min_s node_list exclude_nodes
		constraint exclusive cpus_per_gpu memory_per_gpu_bytes tasks_per_gpu switches switches_wait_s exclusive_user all_memory hold requeue nice array
		signal dependency begin_ms deadline_ms licenses kill_on_invalid_dependency priority contiguous spread_job use_min_nodes network checkpoint reservations`,
	"GpuRequest":       `scope count model shares_per_device`,
	"CheckpointPolicy": `mode interval_s interval_auto directory connections`,
	"Identity":         `uid gid user group uid_domain`,
	"NodeAllocation":   `node cpu_ids memory_bytes devices tasks released tmp_bytes`,
	"AllocatedDevice":  `node device_id shares parent_id model index`,
	"Usage":            `peak_memory_bytes cpu_ns`,
	"JobSaved":         `checkpointable saving images restored_from saves standing_ms kept_gpu_ms failed_number failed_ms number interval_s mean_between_losses_s undone_ms moving move_failed leaves`,
	"MoveUnderWay":     `number to frozen since_ms deadline_ms tries`,
	"MoveTry":          `nodes node`,
	"MoveFailure":      `number at_ms tries`,
	"SaveUnderWay":     `number purpose to for_job since_ms deadline_ms`,
	"SavedImage":       `number epoch node store bytes written_bytes saved_ms ran_ms standing_ms pack_ms allocs parent copies`,
	"SavedAlloc":       `node store bytes written_bytes`,
}

// private are those that sight.reads guards, and secret those that
// sight.readsEnvironment guards.
var (
	private = map[string]string{
		"Job": `reason_detail`, "JobSpec": `script arguments umask mounts staging image container mail_types mail_user`, "ContainerOptions": `work_directory environment entrypoint no_home`, "Identity": `groups home shell`,
		"JobSaved": `checkpointable_reason failed undone`, "MoveTry": `reason`, "MoveFailure": `reason`, "SavedImage": `digest`, "SavedAlloc": `digest`,
		"Mount": `source target read_only`, "Staging": `source target out once`,
	}
	secret = map[string]string{"JobSpec": `environment export_option`}
)

// TestEveryFieldOfAJobIsClassified walks a job of which every field is set. A
// new field fails here until somebody has decided who may read it; if it is not
// public, sight.withhold has to take it out, which this test shows.
func TestEveryFieldOfAJobIsClassified(t *testing.T) {
	whole := &pb.Job{}
	fill(whole.ProtoReflect())
	left := paths(whole.ProtoReflect(), "", nil)

	readable := proto.CloneOf(whole)
	withholdEnvironment(readable)
	readers := paths(readable.ProtoReflect(), "", nil)
	withholdPrivate(readable)
	others := paths(readable.ProtoReflect(), "", nil)

	for path := range left {
		class := classOf(path)
		switch {
		case class == "":
			t.Errorf("%s: decide who may read this of somebody else's job, and write it in the table at the top of sight_test.go", path)
		case others[path] && class != "public":
			t.Errorf("%s is %s, and everybody gets it: withhold it in sight.go", path, class)
		case !others[path] && class == "public":
			t.Errorf("%s is public and withheld", path)
		case readers[path] && class == "secret":
			t.Errorf("%s is secret, and whoever may read the script gets it", path)
		case !readers[path] && class == "private":
			t.Errorf("%s is withheld from those who may read the script", path)
		}
	}
}

// classOf finds the class of "Job.spec/JobSpec.name" by its last allocation.
func classOf(path string) string {
	message, field, _ := strings.Cut(path[strings.LastIndex(path, "/")+1:], ".")
	found := ""
	for class, table := range map[string]map[string]string{"public": public, "private": private, "secret": secret} {
		for _, name := range strings.Fields(table[message]) {
			if name == field {
				found += class
			}
		}
	}
	if strings.Contains(path, "/Mount.") || strings.Contains(path, "/Staging.") {
		return "private"
	}
	return found
}

// paths are the fields that are set, in all messages below.
func paths(message protoreflect.Message, above string, found map[string]bool) map[string]bool {
	if found == nil {
		found = make(map[string]bool)
	}
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		path := fmt.Sprintf("%s%s.%s", above, message.Descriptor().Name(), field.Name())
		found[path] = true
		switch {
		case field.IsMap():
			found[path+"/a map"] = true // nothing is classified so: walk it when there is one
		case field.Message() != nil && field.IsList():
			for i := range value.List().Len() {
				paths(value.List().Get(i).Message(), path+"/", found)
			}
		case field.Message() != nil:
			paths(value.Message(), path+"/", found)
		}
		return true
	})
	return found
}

// fill sets every field of a message and of those below it.
func fill(message protoreflect.Message) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case field.IsMap():
			entries := message.Mutable(field).Map()
			entries.Set(some(field.MapKey()).MapKey(), entries.NewValue())
		case field.IsList() && field.Message() != nil:
			element := message.Mutable(field).List().AppendMutable()
			fill(element.Message())
		case field.IsList():
			message.Mutable(field).List().Append(some(field))
		case field.Message() != nil:
			fill(message.Mutable(field).Message())
		default:
			message.Set(field, some(field))
		}
	}
}

// some is a value that is not the default.
func some(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("x")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("x"))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(1)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind:
		return protoreflect.ValueOfInt32(1)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind:
		return protoreflect.ValueOfInt64(1)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(1)
	}
	panic(fmt.Sprintf("%s: a value of this kind is needed here", field.Kind()))
}
