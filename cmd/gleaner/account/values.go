package account

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file reads the values of keys into a change.

const cleared = "-1" // what takes a value away (sacctmgr(1))

func setText(field func(*pb.AccountChange) **string, change func(string) string) func(*pb.AccountChange, Setting) error {
	return func(c *pb.AccountChange, s Setting) error {
		value := s.Value
		if change != nil {
			value = change(value)
		}
		*field(c) = &value
		return nil
	}
}

func setList(field func(*pb.AccountChange) **pb.ListEdit) func(*pb.AccountChange, Setting) error {
	return func(c *pb.AccountChange, s Setting) error {
		if *field(c) != nil {
			return fmt.Errorf("%s is given twice: join the names with commas", s.Key)
		}
		operations := map[Operator]pb.ListEdit_Operation{Set: pb.ListEdit_OPERATION_SET, Plus: pb.ListEdit_OPERATION_ADD, Minus: pb.ListEdit_OPERATION_REMOVE}
		edit := &pb.ListEdit{Operation: operations[s.Operator]}
		if s.Value != cleared {
			edit.Names = list(s.Value, true)
		}
		if len(edit.Names) == 0 && s.Operator != Set {
			return fmt.Errorf("%s: name what to add or to take away", s.Key)
		}
		*field(c) = edit
		return nil
	}
}

func setLevel(c *pb.AccountChange, s Setting) error {
	levels := map[string]pb.AdminLevel{
		"none": pb.AdminLevel_ADMIN_LEVEL_NONE, "operator": pb.AdminLevel_ADMIN_LEVEL_OPERATOR,
		"admin": pb.AdminLevel_ADMIN_LEVEL_ADMINISTRATOR, "administrator": pb.AdminLevel_ADMIN_LEVEL_ADMINISTRATOR,
	}
	level, known := levels[strings.ToLower(s.Value)]
	if !known {
		return refuse("Invalid value for AdminLevel: %.64q; use None, Operator or Admin", s.Value)
	}
	c.Level = &level
	return nil
}

// defaultShares is what an association has that was given none.
const defaultShares = 1

func setShares(c *pb.AccountChange, s Setting) error {
	if strings.EqualFold(s.Value, "parent") {
		c.ShareParent, c.Shares = true, nil
		return nil
	}
	shares := uint32(defaultShares)
	if s.Value != cleared {
		number, err := number(s, math.MaxUint32)
		if err != nil {
			return err
		}
		shares = uint32(number)
	}
	c.ShareParent, c.Shares = false, &shares
	return nil
}

// number reads a whole number that is not negative.
func number(s Setting, highest uint64) (uint64, error) {
	value, err := strconv.ParseUint(s.Value, 10, 64)
	if err != nil || value > highest {
		return 0, refuse("Bad value for %s: %.64q; use a number of at most %d, or -1 to clear it", s.Key, s.Value, highest)
	}
	return value, nil
}

func setPriority(c *pb.AccountChange, s Setting) error {
	priority := uint32(0)
	if s.Value != cleared {
		value, err := number(s, math.MaxUint32)
		if err != nil {
			return err
		}
		priority = uint32(value)
	}
	c.Priority = &priority
	return nil
}

func setDefaultQOS(c *pb.AccountChange, s Setting) error {
	name := strings.ToLower(s.Value)
	if name == cleared {
		name = ""
	}
	c.DefaultQos = &name
	return nil
}

func resetUsage(c *pb.AccountChange, s Setting) error {
	if s.Value != "0" {
		return fmt.Errorf("RawUsage can be set to 0 only, which forgets what was used")
	}
	c.ResetUsage = true
	return nil
}

func setPreemptMode(c *pb.AccountChange, s Setting) error {
	mode := strings.ToLower(s.Value)
	switch mode {
	case "off", "cluster", cleared, "":
		mode = "" // all of them mean the cluster's, as in Slurm
	case "cancel", "requeue", "suspend", "checkpoint":
	default:
		return refuse("Bad Preempt Mode given: %.64q; use cluster, cancel, requeue or checkpoint", s.Value)
	}
	c.PreemptMode = &mode
	return nil
}

// seconds reads a number of seconds, or minutes:seconds, or
// hours:minutes:seconds.
func seconds(s Setting) (uint32, error) {
	total := uint64(0)
	fields := strings.Split(s.Value, ":")
	for _, field := range fields {
		value, err := strconv.ParseUint(field, 10, 32)
		if err != nil || len(fields) > 3 || total > math.MaxUint32 {
			return 0, refuse("Bad value for %s: %.64q; use seconds, or hours:minutes:seconds", s.Key, s.Value)
		}
		total = total*60 + value
	}
	return uint32(min(total, math.MaxUint32)), nil
}

func setGraceTime(c *pb.AccountChange, s Setting) error {
	grace := uint32(0)
	if s.Value != cleared {
		var err error
		if grace, err = seconds(s); err != nil {
			return err
		}
	}
	c.GraceTimeS = &grace
	return nil
}

func setExemptTime(c *pb.AccountChange, s Setting) error {
	exempt := int64(-1)
	if s.Value != cleared {
		value, err := spec.ParseWall(s.Value)
		if err != nil || value == spec.Unlimited {
			return refuse("Bad value for %s: %.64q; use minutes, hours:minutes:seconds or days-hours, or -1 for the cluster's", s.Key, s.Value)
		}
		exempt = int64(value)
	}
	c.ExemptTimeS = &exempt
	return nil
}

// setUsageFactor reads a factor such as 0.5, in millionths.
func setUsageFactor(c *pb.AccountChange, s Setting) error {
	factor := int64(-1)
	if s.Value != cleared {
		value, err := strconv.ParseFloat(s.Value, 64)
		if err != nil || !(value >= 0 && value <= 1000) {
			return refuse("Bad value for %s: %.64q; use a factor from 0 to 1000, such as 0.5, or -1 to clear it", s.Key, s.Value)
		}
		factor = int64(math.Round(value * 1e6))
	}
	c.UsageFactorPpm = &factor
	return nil
}

// qosFlags are those that are supported (sacctmgr(1)).
var qosFlags = []string{"DenyOnLimit", "NoDecay", "OverPartQOS"}

func setFlags(c *pb.AccountChange, s Setting) error {
	var named, others []string
	wanted := list(s.Value, true)
	if s.Value == cleared {
		wanted = nil
	}
	for _, flag := range qosFlags {
		found := false
		for _, word := range wanted {
			found = found || word == strings.ToLower(flag)
		}
		if found {
			named = append(named, flag)
		} else {
			others = append(others, flag)
		}
	}
	if len(named) < len(wanted) {
		return refuse("Bad value for Flags: %.64q; there are %s", s.Value, strings.Join(qosFlags, ", "))
	}
	switch s.Operator {
	case Set:
		c.FlagsOn, c.FlagsOff = named, others
	case Plus:
		c.FlagsOn = append(c.FlagsOn, named...)
	case Minus:
		c.FlagsOff = append(c.FlagsOff, named...)
	}
	return nil
}
