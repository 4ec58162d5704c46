package control

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file reads the settings of a reservation.

// laterReservationKeys are refused by name.
var laterReservationKeys = map[string]string{
	"corecnt": "reservations have whole nodes: give NodeCnt", "cores": "reservations have whole nodes: give NodeCnt", "licenses": "only nodes are reserved",
	"burstbuffer": "there are no burst buffers", "groups": "give Users or Accounts", "group": "give Users or Accounts", "maxstartdelay": option.LeaveOut,
	"purgecomp": "delete it with gcontrol delete ReservationName=NAME", "watts": option.LeaveOut, "qos": "give Users or Accounts", "allowedpartitions": "give Users or Accounts",
	"region": option.LeaveOut, "comment": option.LeaveOut, "skip": option.LeaveOut,
}

// reservationFlags are Slurm's words for flags; those without a value say what is always
// so here.
var reservationFlags = map[string]pb.ReservationFlag{
	"maint": pb.ReservationFlag_RESERVATION_FLAG_MAINT, "overlap": pb.ReservationFlag_RESERVATION_FLAG_OVERLAP,
	"ignore_jobs": pb.ReservationFlag_RESERVATION_FLAG_IGNORE_JOBS, "ignore_running_jobs": pb.ReservationFlag_RESERVATION_FLAG_IGNORE_JOBS,
	"flex": pb.ReservationFlag_RESERVATION_FLAG_FLEX, "magnetic": pb.ReservationFlag_RESERVATION_FLAG_MAGNETIC,
	"spec_nodes": 0, "static_alloc": 0, "static": 0, "part_nodes": 0, "any_nodes": 0, "no_hold_jobs_after": 0, "no_hold_jobs_after_end": 0,
}

var reservationRepeats = map[string]pb.ReservationRepeat{
	"hourly": pb.ReservationRepeat_RESERVATION_REPEAT_HOURLY, "daily": pb.ReservationRepeat_RESERVATION_REPEAT_DAILY,
	"weekday": pb.ReservationRepeat_RESERVATION_REPEAT_WEEKDAY, "weekend": pb.ReservationRepeat_RESERVATION_REPEAT_WEEKEND,
	"weekly": pb.ReservationRepeat_RESERVATION_REPEAT_WEEKLY,
}

// laterReservationFlags are refused by name.
var laterReservationFlags = map[string]string{
	"purge_comp": "delete it with gcontrol delete ReservationName=NAME", "replace": "its nodes stay the same: change them with gcontrol update", "replace_down": "its nodes stay the same: change them with gcontrol update",
	"time_float": "give a StartTime", "first_cores": "reservations have whole nodes", "license_only": "only nodes are reserved",
	"user_delete": "administrators and operators delete reservations", "no_purge_comp": option.LeaveOut, "force_start": option.LeaveOut, "gres_alloc": option.LeaveOut,
}

// reservationEdit is what the settings of one command say.
type reservationEdit struct {
	r         *pb.Reservation
	fields    []string
	durationS uint32 // 0 = not given
	begins    bool   // StartTime was given
	ends      bool   // EndTime was given
	nodeCount uint32
	gpuCount  uint32
	gpuModel  string
	features  string
}

// set reads one setting.
func (e *reservationEdit) set(c *controlRun, s setting) error {
	key, sign := s.key, byte(0)
	if n := len(key); n > 0 && (key[n-1] == '+' || key[n-1] == '-') {
		key, sign = key[:n-1], key[n-1]
	}
	var err error
	switch key {
	case "reservationname":
		e.r.Name = s.value
	case "starttime":
		e.begins = true
		e.r.StartMs, err = reservationTime(s.value)
		e.fields = append(e.fields, "start_ms")
	case "endtime":
		e.ends = true
		e.r.EndMs, err = reservationTime(s.value)
		e.fields = append(e.fields, "end_ms")
	case "duration":
		e.durationS, err = reservationDuration(s.value)
	case "nodes", "nodelist":
		err = e.nodes(s.value, sign)
	case "nodecnt", "nodecount":
		e.nodeCount, err = countOf(s.value)
	case "partition", "partitionname":
		e.r.Partition = s.value
	case "users", "user":
		e.r.Users, e.r.NotUsers, err = peopleOf(e.r.Users, e.r.NotUsers, s.value, sign)
		e.fields = append(e.fields, "users")
	case "accounts", "account":
		e.r.Accounts, e.r.NotAccounts, err = peopleOf(e.r.Accounts, e.r.NotAccounts, strings.ToLower(s.value), sign)
		e.fields = append(e.fields, "accounts")
	case "flags":
		err = e.flags(s.value, sign)
	case "features", "feature":
		e.features = s.value
	case "tres":
		err = e.tres(s.value)
	default:
		if remedy, known := laterReservationKeys[key]; known {
			return &option.LaterError{Name: s.key + " of a reservation", Remedy: remedy}
		}
		return c.aborted("Unknown parameter %s.  See man gcontrol for parameter list.", s.key)
	}
	if later := (*option.LaterError)(nil); errors.As(err, &later) {
		return later
	}
	if err != nil {
		return c.aborted("Invalid input: %s=%s\n%v", s.key, s.value, err)
	}
	return nil
}

func reservationTime(text string) (int64, error) {
	when, err := spec.ParseMoment(text, console.Clock())
	if err != nil {
		return 0, err
	}
	// A start that is said to be now must not be over when the request arrives.
	return max(when.Truncate(time.Second).UnixMilli(), 1), nil
}

// endlessS is what Slurm takes for a reservation without end: a year.
const endlessS = 365 * 24 * 3600

func reservationDuration(text string) (uint32, error) {
	seconds, err := spec.ParseTime(text)
	switch {
	case err != nil:
		return 0, err
	case seconds == spec.Unlimited:
		return endlessS, nil
	case seconds == 0:
		return 0, fmt.Errorf("give at least a minute")
	}
	return seconds, nil
}

func countOf(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("type a whole number, at least 1")
	}
	return uint32(n), nil
}

// nodes reads a host list, or ALL.
func (e *reservationEdit) nodes(text string, sign byte) error {
	e.fields = append(e.fields, "nodes")
	if strings.EqualFold(text, "ALL") && sign == 0 {
		e.r.Nodes = "ALL"
		return nil
	}
	names, err := spec.ParseHostList(text)
	if err != nil {
		return err
	}
	present, err := spec.ParseHostList(e.r.Nodes)
	if err != nil && e.r.Nodes != "" {
		return err
	}
	e.r.Nodes = spec.FormatHostList(edited(present, names, sign))
	return nil
}

// edited is a list with others added (+) or taken away (-), or in its place.
func edited(list, others []string, sign byte) []string {
	switch sign {
	case '+':
		list = append(slices.Clone(list), others...)
	case '-':
		list = slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(others, name) })
	default:
		list = others
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// peopleOf reads users or accounts; each with a - before it, everybody but them.
func peopleOf(present []string, presentNot bool, text string, sign byte) (names []string, not bool, err error) {
	var denied int
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if sign == 0 && strings.HasPrefix(name, "-") {
			denied++
			name = name[1:]
		}
		if name != "" {
			names = append(names, name)
		}
	}
	if denied > 0 && denied < len(names) {
		return nil, false, fmt.Errorf("either all names have a - before them, or none")
	}
	if sign != 0 {
		return edited(present, names, sign), presentNot, nil
	}
	return edited(nil, names, 0), denied > 0, nil
}

// flags reads Slurm's words.
func (e *reservationEdit) flags(text string, sign byte) error {
	if sign == 0 {
		e.r.Flags, e.r.Repeat = nil, 0
	}
	e.fields = append(e.fields, "flags", "repeat")
	for word := range strings.SplitSeq(strings.ToLower(text), ",") {
		flag, isFlag := reservationFlags[word]
		repeat, isRepeat := reservationRepeats[word]
		remedy, later := laterReservationFlags[word]
		switch {
		case word == "":
		case later:
			return &option.LaterError{Name: "the flag " + strings.ToUpper(word) + " of a reservation", Remedy: remedy}
		case isRepeat && sign == '-':
			e.r.Repeat = 0
		case isRepeat && e.r.Repeat != 0 && e.r.Repeat != repeat:
			return fmt.Errorf("it repeats in one way only")
		case isRepeat:
			e.r.Repeat = repeat
		case !isFlag:
			return fmt.Errorf("%s is no flag of a reservation: there are MAINT, OVERLAP, IGNORE_JOBS, FLEX, MAGNETIC, and HOURLY, DAILY, WEEKDAY, WEEKEND, WEEKLY", strings.ToUpper(word))
		case flag == 0:
		case sign == '-':
			e.r.Flags = slices.DeleteFunc(e.r.Flags, func(f pb.ReservationFlag) bool { return f == flag })
		case !slices.Contains(e.r.Flags, flag):
			e.r.Flags = append(e.r.Flags, flag)
		}
	}
	slices.Sort(e.r.Flags)
	return nil
}

// tres reads node=2, gres/gpu=8 and gres/gpu:model=8.
func (e *reservationEdit) tres(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		key, count, _ := strings.Cut(part, "=")
		kind, model, _ := strings.Cut(key, ":")
		n, err := countOf(count)
		switch {
		case err != nil:
			return err
		case kind == "node" && model == "":
			e.nodeCount = n
		case kind == "gres/gpu":
			e.gpuCount, e.gpuModel = n, model
		default:
			return fmt.Errorf("reservations have whole nodes: use node=2, gres/gpu=8 or gres/gpu:MODEL=8")
		}
	}
	if e.nodeCount > 0 && e.gpuCount > 0 {
		return fmt.Errorf("ask for a number of nodes or of GPUs")
	}
	return nil
}
