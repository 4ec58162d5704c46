package control

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

var errNoAmount = errors.New("type how much to add or to take off, such as TimeLimit+=30")

// jobKeys are what an update changes of a job, under the keys of scontrol(1) in
// small letters.
var jobKeys = map[string]func(change *pb.JobChange, value string) error{
	"timelimit":   changedTime,
	"timemin":     changeTimeMin,
	"partition":   func(c *pb.JobChange, v string) error { return changeList(&c.Partitions, v) },
	"qos":         func(c *pb.JobChange, v string) error { return changeText(&c.Qos, v) },
	"account":     func(c *pb.JobChange, v string) error { return changeText(&c.Account, v) },
	"wckey":       func(c *pb.JobChange, v string) error { return changeText(&c.Wckey, v) },
	"comment":     func(c *pb.JobChange, v string) error { return changeText(&c.Comment, v) },
	"jobname":     func(c *pb.JobChange, v string) error { return changeText(&c.Name, v) },
	"name":        func(c *pb.JobChange, v string) error { return changeText(&c.Name, v) },
	"features":    func(c *pb.JobChange, v string) error { return changeText(&c.Constraint, v) },
	"reqnodelist": func(c *pb.JobChange, v string) error { return changeHosts(&c.NodeList, v) },
	"excnodelist": func(c *pb.JobChange, v string) error { return changeHosts(&c.ExcludeNodes, v) },
	"priority":    changePriority,
	"nice":        changeNice,

	"dependency":             changeDependency,
	"starttime":              func(c *pb.JobChange, v string) error { return changeMoment(&c.BeginMs, v) },
	"eligibletime":           func(c *pb.JobChange, v string) error { return changeMoment(&c.BeginMs, v) },
	"deadline":               func(c *pb.JobChange, v string) error { return changeMoment(&c.DeadlineMs, v) },
	"killoninvaliddependent": func(c *pb.JobChange, v string) error { return changeYes(&c.KillOnInvalidDependency, v) },
	"resetaccruetime":        func(c *pb.JobChange, _ string) error { c.ResetAccrueTime = true; return nil },

	"numnodes":          changeNodes,
	"reqnodes":          changeNodes,
	"minnodes":          func(c *pb.JobChange, v string) error { return changeCount(&c.MinNodes, v, 1) },
	"numtasks":          func(c *pb.JobChange, v string) error { return changeCount(&c.Tasks, v, 1) },
	"reqprocs":          func(c *pb.JobChange, v string) error { return changeCount(&c.Tasks, v, 1) },
	"taskspernode":      func(c *pb.JobChange, v string) error { return changeCount(&c.TasksPerNode, v, 1) },
	"cpuspertask":       func(c *pb.JobChange, v string) error { return changeCount(&c.CpusPerTask, v, 1) },
	"minmemorynode":     func(c *pb.JobChange, v string) error { return changeSize(&c.MemoryPerNodeBytes, v) },
	"mintmpdisknode":    func(c *pb.JobChange, v string) error { return changeSize(&c.TmpPerNodeBytes, v) },
	"minmemorycpu":      func(c *pb.JobChange, v string) error { return changeSize(&c.MemoryPerCpuBytes, v) },
	"gres":              func(c *pb.JobChange, v string) error { return changeGres(c, v, pb.GpuScope_GPU_SCOPE_NODE) },
	"trespernode":       func(c *pb.JobChange, v string) error { return changeGres(c, v, pb.GpuScope_GPU_SCOPE_NODE) },
	"tresperjob":        func(c *pb.JobChange, v string) error { return changeGres(c, v, pb.GpuScope_GPU_SCOPE_JOB) },
	"requeue":           changeRequeue,
	"arraytaskthrottle": func(c *pb.JobChange, v string) error { return changeCount(&c.MaxRunning, v, 0) },
	"licenses":          changeLicenses,
	"switches":          changeSwitches,
	"wait-for-switch":   func(c *pb.JobChange, v string) error { return changeCount(&c.SwitchesWaitS, v, 0) },
	"oversubscribe":     changeSharing,
	"shared":            changeSharing,
	"network":           changeNetwork,
	"reservationname":   changeReservation,
	"reservation":       changeReservation,
	"mailtype":          changeMailType,
	"mailuser":          changeMailUser,
	"checkpoint":        func(c *pb.JobChange, v string) error { return changeText(&c.Checkpoint, v) },
}

// laterJobKeys are keys of scontrol(1) that are refused by name.
var laterJobKeys = map[string]string{
	"admincomment": "use Comment", "burstbuffer": "there are no burst buffers", "clusters": "this cluster is the only one",
	"clusterfeatures": "this cluster is the only one", "contiguous": "name the nodes with ReqNodeList", "corespec": option.LeaveOut,
	"delayboot": option.LeaveOut, "endtime": "give TimeLimit",
	"mincpusnode": "give CPUsPerTask and TasksPerNode", "nodelist": "a job that runs keeps its nodes",
	"numcpus": "give NumTasks and CPUsPerTask", "prefer": "give Features", "reboot": option.LeaveOut, "reqcores": "give CPUsPerTask", "reqsockets": "give CPUsPerTask",
	"reqthreads": "give CPUsPerTask", "sitefactor": "give Priority, or Nice", "stdout": "cancel the job and submit it again",
	"stderr": "cancel the job and submit it again", "stdin": "cancel the job and submit it again",
	"threadspec": option.LeaveOut,
	"workdir":    "cancel the job and submit it again", "state": "use gcontrol hold, release, requeue or gcancel",
}

func changeText(field **string, value string) error {
	*field = proto.String(value)
	return nil
}

func changeList(field *[]string, value string) error {
	for name := range strings.SplitSeq(value, ",") {
		if name = strings.TrimSpace(name); name != "" {
			*field = append(*field, name)
		}
	}
	if len(*field) == 0 {
		return errors.New("name at least one")
	}
	return nil
}

func changeHosts(field **string, value string) error {
	if _, err := spec.ParseHostList(value); err != nil {
		return err
	}
	return changeText(field, value)
}

func changeMailType(c *pb.JobChange, value string) error {
	types, err := spec.ParseMailTypes(value)
	if err != nil {
		return err
	}
	c.MailTypes = proto.Uint32(uint32(types))
	return nil
}

func changeMailUser(c *pb.JobChange, value string) error {
	users, err := spec.ParseMailUsers(value)
	if err != nil {
		return err
	}
	return changeText(&c.MailUser, strings.Join(users, ","))
}

func changeCount(field **uint32, value string, least uint64) error {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || n < least {
		return fmt.Errorf("type a whole number, at least %d", least)
	}
	*field = proto.Uint32(uint32(n))
	return nil
}

// changeNodes reads "4" or "2-4".
func changeNodes(c *pb.JobChange, value string) error {
	low, high, isRange := strings.Cut(value, "-")
	if !isRange {
		high = low
	}
	if err := errors.Join(changeCount(&c.MinNodes, low, 1), changeCount(&c.MaxNodes, high, 1)); err != nil || c.GetMinNodes() > c.GetMaxNodes() {
		return errors.New("type a number of nodes, or the least and the most as in 2-4")
	}
	return nil
}

func changeSize(field **uint64, value string) error {
	size, err := spec.ParseSize(value, 1<<20)
	if err == nil && size == 0 {
		err = errors.New("say how much the job needs")
	}
	*field = proto.Uint64(size)
	return err
}

// changeGres replaces all GPUs that were asked for; none, with an empty value.
func changeGres(c *pb.JobChange, value string, scope pb.GpuScope) error {
	if c.Gpus == nil {
		c.Gpus = &pb.GpuRequests{}
	}
	if value == "" {
		return nil
	}
	gpus, err := spec.ParseGres(strings.TrimPrefix(value, "gres/"), scope)
	c.Gpus.Requests = append(c.Gpus.Requests, gpus...)
	return err
}

func changePriority(c *pb.JobChange, value string) error {
	priority, err := jobspec.ParsePriority(value)
	c.Priority = &priority
	return err
}

func changeNice(c *pb.JobChange, value string) error {
	if value == "" {
		value = strconv.Itoa(jobspec.NiceWithoutNumber)
	}
	nice, err := strconv.ParseInt(value, 10, 32)
	if err != nil || nice > jobspec.NiceLimit || nice < -jobspec.NiceLimit {
		return fmt.Errorf("type a whole number between -%d and %d", jobspec.NiceLimit, jobspec.NiceLimit)
	}
	c.Nice = proto.Int32(int32(nice))
	return nil
}

func changeDependency(c *pb.JobChange, value string) error {
	if value == "(null)" { // as it is shown
		value = ""
	}
	_, err := spec.ParseDependencies(value)
	c.Dependency = &value
	return err
}

// changeTimeMin reads the least time limit; none, or 0, takes it away.
func changeTimeMin(c *pb.JobChange, value string) error {
	if value == "" || value == "0" || value == "N/A" { // as it is shown
		c.TimeMinS = proto.Uint32(0)
		return nil
	}
	least, err := spec.ParseTime(value)
	c.TimeMinS = &least
	return err
}

// changeMoment reads a time; none, or 0, takes it away.
func changeMoment(field **int64, value string) error {
	if value == "" || value == "0" {
		*field = proto.Int64(0)
		return nil
	}
	when, err := spec.ParseMoment(value, console.Clock())
	if err != nil {
		return err
	}
	*field = proto.Int64(max(when.UnixMilli(), 0))
	return nil
}

func changeYes(field **bool, value string) error {
	switch strings.ToLower(value) {
	case "yes", "1", "true":
		*field = proto.Bool(true)
	case "no", "0", "false":
		*field = proto.Bool(false)
	default:
		return errors.New("type yes or no")
	}
	return nil
}

func changeRequeue(c *pb.JobChange, value string) error { return changeYes(&c.Requeue, value) }

// changeLicenses replaces all licenses that were asked for; none, with an empty
// value.
func changeLicenses(c *pb.JobChange, value string) error {
	if value == "" {
		return changeText(&c.Licenses, "")
	}
	licenses, err := spec.ParseLicenses(value)
	c.Licenses = proto.String(spec.FormatLicenses(licenses))
	return err
}

// changeSwitches reads "2" or "2@30"; 0 takes the wish away.
func changeSwitches(c *pb.JobChange, value string) error {
	count, waitS, err := jobspec.ParseSwitches(value)
	c.Switches, c.SwitchesWaitS = &count, &waitS
	return err
}

// changeReservation reads in which reservations a job is to run; none, with an empty value.
func changeReservation(c *pb.JobChange, value string) error {
	if value == "(null)" { // as it is shown
		value = ""
	}
	return changeText(&c.Reservations, value)
}

// changeNetwork reads which network a job is to have.
func changeNetwork(c *pb.JobChange, value string) error {
	network, err := jobspec.NetworkNamed(value)
	c.Network = &network
	return err
}

// changeSharing reads whether nodes are shared with others' jobs.
func changeSharing(c *pb.JobChange, value string) error {
	switch strings.ToLower(value) {
	case "yes", "ok":
		c.Exclusive, c.ExclusiveUser = proto.Bool(false), proto.Bool(false)
	case "no", "exclusive":
		c.Exclusive = proto.Bool(true)
	case "user":
		c.Exclusive, c.ExclusiveUser = proto.Bool(false), proto.Bool(true)
	default:
		return errors.New("type yes, no or user")
	}
	return nil
}
