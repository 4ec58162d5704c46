package main

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/similar"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// maxClusterFileBytes bounds cluster.toml; a file of a thousand partitions is
// a tenth of it.
const maxClusterFileBytes = 1 << 20

// clusterFile is cluster.toml. Durations are seconds as a number, or
// minutes:seconds and longer as a text; limits of jobs are Slurm's times.
type clusterFile struct {
	ClusterName    string          `toml:"cluster_name"`
	Administrators []string        `toml:"administrators"`
	MinJobAge      any             `toml:"min_job_age"`
	KillWait       any             `toml:"kill_wait"`
	MaxArraySize   *uint32         `toml:"max_array_size"`
	MaxJobCount    *uint32         `toml:"max_job_count"`
	Lease          any             `toml:"lease"`
	LeaseMargin    any             `toml:"lease_margin"`
	Partitions     []partitionFile `toml:"partition"`
}

type partitionFile struct {
	Name          string   `toml:"name"`
	Nodes         string   `toml:"nodes"`
	Default       bool     `toml:"default"`
	State         string   `toml:"state"`
	MaxTime       string   `toml:"max_time"`
	DefaultTime   string   `toml:"default_time"`
	PriorityTier  *uint32  `toml:"priority_tier"`
	DefMemPerCPU  string   `toml:"def_mem_per_cpu"`
	AllowRootJobs bool     `toml:"allow_root_jobs"`
	LeaseAction   string   `toml:"lease_action"`
	AllowGroups   []string `toml:"allow_groups"`
}

// parseClusterFile reads a policy. What the text leaves out has the default
// that a new cluster begins with. Unknown keys are refused, each with its line
// and the key most like it.
func parseClusterFile(text []byte) (*pb.Policy, error) {
	var file clusterFile
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // some editors begin a file so
	decoder := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, tomlError(err)
	}
	policy := &pb.Policy{
		ClusterName: "gleaner", Administrators: file.Administrators, MaxArraySize: 1_000_001, MaxJobCount: 1_000_000,
	}
	if file.ClusterName != "" {
		policy.ClusterName = file.ClusterName
	}
	if file.MaxArraySize != nil {
		policy.MaxArraySize = *file.MaxArraySize
	}
	if file.MaxJobCount != nil {
		policy.MaxJobCount = *file.MaxJobCount
	}
	for _, duration := range []struct {
		key    string
		value  any
		normal uint32
		field  *uint32
	}{
		{"min_job_age", file.MinJobAge, 300, &policy.MinJobAgeS}, {"kill_wait", file.KillWait, 30, &policy.KillWaitS}, {"lease", file.Lease, 30, &policy.LeaseS},
		{"lease_margin", file.LeaseMargin, 10, &policy.LeaseMarginS},
	} {
		seconds, err := durationSeconds(duration.value, duration.normal)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", duration.key, err)
		}
		*duration.field = seconds
	}
	for i, entry := range file.Partitions {
		partition, err := entry.partition()
		if err != nil {
			return nil, fmt.Errorf("partition %q (number %d of the file): %w", entry.Name, i+1, err)
		}
		policy.Partitions = append(policy.Partitions, partition)
	}
	return policy, checkPartitions(policy.Partitions)
}

func (p *partitionFile) partition() (*pb.Partition, error) {
	partition := &pb.Partition{
		Name: p.Name, Nodes: p.Nodes, IsDefault: p.Default, MaxTimeS: spec.Unlimited, PriorityTier: 1,
		AllowRootJobs: p.AllowRootJobs, LeaseAction: p.LeaseAction, AllowGroups: p.AllowGroups,
	}
	if p.Name == "" {
		return nil, errors.New("it needs a name")
	}
	if strings.EqualFold(p.Nodes, "ALL") || p.Nodes == "" {
		partition.Nodes = "ALL"
	} else if _, err := spec.ParseHostList(p.Nodes); err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	switch strings.ToLower(p.State) {
	case "", "up":
		partition.Up = true
	case "down":
	default:
		return nil, fmt.Errorf("state: %q is neither up nor down", p.State)
	}
	switch p.LeaseAction {
	case "":
		partition.LeaseAction = "run-on"
	case "run-on", "fence":
	default:
		return nil, fmt.Errorf("lease_action: %q is neither run-on nor fence", p.LeaseAction)
	}
	var err error
	if p.MaxTime != "" {
		if partition.MaxTimeS, err = spec.ParseTime(p.MaxTime); err != nil {
			return nil, fmt.Errorf("max_time: %w", err)
		}
	}
	if p.DefaultTime != "" {
		if partition.DefaultTimeS, err = spec.ParseTime(p.DefaultTime); err != nil {
			return nil, fmt.Errorf("default_time: %w", err)
		}
	}
	if p.DefMemPerCPU != "" {
		if partition.DefaultMemoryPerCpuBytes, err = spec.ParseSize(p.DefMemPerCPU, 1<<20); err != nil {
			return nil, fmt.Errorf("def_mem_per_cpu: %w", err)
		}
	}
	if p.PriorityTier != nil {
		partition.PriorityTier = *p.PriorityTier
	}
	if partition.DefaultTimeS > partition.MaxTimeS {
		return nil, fmt.Errorf("default_time %s is longer than max_time %s", p.DefaultTime, p.MaxTime)
	}
	return partition, nil
}

// checkPartitions looks at what single partitions cannot show.
func checkPartitions(partitions []*pb.Partition) error {
	if len(partitions) == 0 {
		return errors.New("a cluster needs at least one [[partition]]; nothing could run without")
	}
	seen, standard := map[string]bool{}, ""
	for _, partition := range partitions {
		if seen[partition.Name] {
			return fmt.Errorf("two partitions are called %q", partition.Name)
		}
		seen[partition.Name] = true
		if partition.IsDefault && standard != "" {
			return fmt.Errorf("partitions %q and %q both are the default one; keep default = true in one of them", standard, partition.Name)
		}
		if partition.IsDefault {
			standard = partition.Name
		}
	}
	return nil
}

// durationSeconds reads a number of seconds, or "minutes:seconds" and longer
// forms. A text without a colon could mean minutes or seconds, and is refused.
func durationSeconds(value any, normal uint32) (uint32, error) {
	switch value := value.(type) {
	case nil:
		return normal, nil
	case int64:
		if value < 1 || value >= int64(spec.Unlimited) {
			return 0, fmt.Errorf("%d is out of range: at least 1 second", value)
		}
		return uint32(value), nil
	case string:
		seconds, ok := clockSeconds(value)
		if !ok || seconds == 0 {
			return 0, fmt.Errorf("%q is no duration: write a number of seconds without quotes, or \"minutes:seconds\"", value)
		}
		return seconds, nil
	}
	return 0, errors.New("write a number of seconds, or \"minutes:seconds\"")
}

// clockSeconds reads "m:s", "h:m:s" and "d-h:m:s" to the second.
func clockSeconds(text string) (uint32, bool) {
	days, clock, hasDays := strings.Cut(text, "-")
	fields := strings.Split(clock, ":")
	if !hasDays {
		days, fields = "0", strings.Split(text, ":")
	}
	if len(fields) < 2 || len(fields) > 3 || hasDays && len(fields) < 3 {
		return 0, false
	}
	hours := uint64(0)
	if len(fields) == 3 {
		n, err := strconv.ParseUint(fields[0], 10, 24)
		if err != nil {
			return 0, false
		}
		hours, fields = n, fields[1:]
	}
	n, err := strconv.ParseUint(days, 10, 24)
	minutes, errMinutes := strconv.ParseUint(fields[0], 10, 24)
	seconds, errSeconds := strconv.ParseUint(fields[1], 10, 24)
	total := n*86400 + hours*3600 + minutes*60 + seconds
	return uint32(total), errors.Join(err, errMinutes, errSeconds) == nil && total < uint64(spec.Unlimited)
}

// tomlError says where in the file the error is.
func tomlError(err error) error {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) {
		var lines []string
		for _, one := range unknown.Errors {
			lines = append(lines, unknownKey(one))
		}
		return errors.New(strings.Join(lines, "\n"))
	}
	var decode *toml.DecodeError
	if errors.As(err, &decode) {
		line, _ := decode.Position()
		where := ""
		if key := decode.Key(); len(key) > 0 {
			where = strings.Join(key, ".") + ": "
		}
		message := strings.TrimPrefix(decode.Error(), "toml: ")
		if wrong := wrongType.FindStringSubmatch(message); wrong != nil {
			message = "a value of type " + wrong[1] + " cannot stand here: write " + wantedType(wrong[2])
		}
		if large := tooLarge.FindStringSubmatch(message); large != nil {
			message = large[1] + " is out of range: write a whole number from 0 to 4294967295"
		}
		return fmt.Errorf("line %d: %s%s", line, where, message)
	}
	return err
}

// wrongType is the library's sentence about a value of another type than its
// key has; it names types of this program, which are nobody's business.
var wrongType = regexp.MustCompile(`^cannot decode TOML (.+?) into (?:struct field )?.*?of type (\S+)$`)

// tooLarge is its sentence about a number that does not fit; all of ours have
// 32 bits.
var tooLarge = regexp.MustCompile(`^(?:negative )?integer value (\S+) cannot be stored in uint32$`)

// wantedType is what to write for a value of a type of this program.
func wantedType(name string) string {
	switch strings.TrimPrefix(name, "*") {
	case "string":
		return `a text in quotes, as in "value"`
	case "bool":
		return "true or false"
	case "uint32":
		return "a whole number without quotes"
	case "[]string":
		return `a list of texts, as in ["one", "two"]`
	}
	return "a table, as in [[partition]]"
}

// unknownKey names a key that there is none of, and the one most like it.
func unknownKey(e toml.DecodeError) string {
	line, _ := e.Position()
	path := e.Key()
	key, table := path[len(path)-1], reflect.TypeFor[clusterFile]()
	if len(path) > 1 && path[0] == "partition" {
		table = reflect.TypeFor[partitionFile]()
	}
	known := tomlKeys(table)
	text := fmt.Sprintf("line %d: there is no key %.80q", line, strings.Join(path, "."))
	if meant := similar.Nearest(key, known); meant != "" {
		return text + fmt.Sprintf("; did you mean %s?", meant)
	}
	return text + "; the keys are " + strings.Join(known, ", ")
}

// tomlKeys are the keys of a table.
func tomlKeys(table reflect.Type) []string {
	var keys []string
	for i := range table.NumField() {
		keys = append(keys, table.Field(i).Tag.Get("toml"))
	}
	return keys
}
