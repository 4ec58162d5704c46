package lend

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clusterfile"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// The words for no limit, and for all accounts.
const (
	unlimited = "unlimited"
	all       = "all"
	noLimit   = 1<<64 - 1
)

// readTerms reads the terms that are given into a request.
func readTerms(inv *option.Invocation, request *pb.SetLendingRequest) error {
	for _, term := range []struct {
		long, setting string
		read          func(*option.Invocation, string, *pb.Lending) error
	}{
		{"hours", "hours", readHours},
		{"triggers", "triggers", readTriggers},
		{"quiet", "quiet_s", readQuiet},
		{"notice", "notice_ms", readNotice},
		{"gpus", "gpu_percent", readPercent},
		{"accounts", "accounts", readAccounts},
		{"images", "image_rules", readImages},
		{"guest-memory", "guest_memory_bytes", sizeInto(func(l *pb.Lending) *uint64 { return &l.GuestMemoryBytes })},
		{"guest-tmp", "guest_tmp_bytes", sizeInto(func(l *pb.Lending) *uint64 { return &l.GuestTmpBytes })},
		{"guest-network", "guest_network_bytes", rateInto(func(l *pb.Lending) *uint64 { return &l.GuestNetworkBytes }, "guests cannot be kept off the network like this")},
		{"network", "network", readNetwork},
		{"network-allow", "network_allow", readNetworkAllow},
		{"guest-io", "guest_io_bytes", rateInto(func(l *pb.Lending) *uint64 { return &l.GuestIoBytes }, "guests that read nothing do not even start")},
		{"guest-power", "guest_power_watts", readPower},
		{"parked-memory", "parked_memory_bytes", sizeInto(func(l *pb.Lending) *uint64 { return &l.ParkedMemoryBytes })},
		{"max-time", "max_unsaved_s", readMaxTime},
		{"kill", "unbounded", readKill},
		{"nested", "nested_containers", readNested},
	} {
		if !inv.Given(term.long) {
			continue
		}
		if err := term.read(inv, term.long, request.Lending); err != nil {
			return err
		}
		request.Settings = append(request.Settings, term.setting)
	}
	switch {
	case inv.Given("time-zone") && inv.Text("time-zone") == "":
		return inv.Fail("--time-zone: it is empty: name a zone, as Europe/Berlin, or UTC")
	case inv.Given("time-zone"):
		request.Lending.TimeZone = inv.Text("time-zone")
	case inv.Given("hours"):
		request.Lending.TimeZone = localZone(inv.Getenv("TZ"), "/etc")
	default:
		return nil
	}
	request.Settings = append(request.Settings, "time_zone")
	return nil
}

func readHours(inv *option.Invocation, long string, terms *pb.Lending) error {
	if _, err := spec.ParseWeek(inv.Text(long)); err != nil {
		return inv.Fail("--hours: %w", err)
	}
	terms.Hours = strings.Join(strings.Fields(inv.Text(long)), " ")
	if word := strings.ToLower(terms.Hours); word == spec.Always || word == spec.Never {
		terms.Hours = word
	}
	return nil
}

func readNotice(inv *option.Invocation, long string, terms *pb.Lending) error {
	seconds, err := spec.ParseDuration(inv.Text(long))
	if err != nil {
		return inv.Fail("--notice: %w", err)
	}
	if seconds > 24*3600 {
		return inv.Fail("--notice=%s: guests have at most 24h to leave", inv.Text(long))
	}
	terms.NoticeMs = seconds * 1000
	return nil
}

func readPercent(inv *option.Invocation, long string, terms *pb.Lending) error {
	// A number alone would be taken for one of GPUs by whoever types it.
	number, signed := strings.CutSuffix(inv.Text(long), "%")
	percent, err := strconv.ParseUint(number, 10, 32)
	if err != nil || percent > 100 || !signed && percent > 0 {
		return inv.Fail("--gpus=%s: type a share of each node's GPUs, from 0%% to 100%%, with its sign as in 50%%", inv.Text(long))
	}
	terms.GpuPercent = uint32(percent)
	return nil
}

func readAccounts(inv *option.Invocation, long string, terms *pb.Lending) error {
	if strings.EqualFold(inv.Text(long), all) {
		return nil
	}
	for _, name := range strings.Split(inv.Text(long), ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); name == "" {
			return inv.Fail("--accounts=%s: name accounts, as in a,b, or type all; --hours=never lends to nobody", inv.Text(long))
		}
		terms.Accounts = append(terms.Accounts, name)
	}
	return nil
}

// readImages reads which container images guests may have.
func readImages(inv *option.Invocation, long string, terms *pb.Lending) error {
	if strings.EqualFold(inv.Text(long), all) {
		return nil
	}
	text, err := console.ReadFile(inv.Context, inv.Text(long), clusterfile.MaxBytes)
	if err != nil {
		return inv.Fail("--images=%s: %w: name a file with [images], or type all", inv.Text(long), console.Reason(err))
	}
	if terms.ImageRules, err = clusterfile.ParseImages(text); err != nil {
		return inv.Fail("--images=%s: %w", inv.Text(long), err)
	}
	return nil
}

// sizeInto reads a size, or that there is no limit, into a field.
func sizeInto(field func(*pb.Lending) *uint64) func(*option.Invocation, string, *pb.Lending) error {
	return func(inv *option.Invocation, long string, terms *pb.Lending) error {
		if strings.EqualFold(inv.Text(long), unlimited) {
			*field(terms) = noLimit
			return nil
		}
		bytes, err := spec.ParseSize(inv.Text(long), 1<<20)
		if err != nil {
			return inv.Fail("--%s: %w, or unlimited", long, err)
		}
		*field(terms) = bytes
		return nil
	}
}

// rateInto reads how many bytes guests move in a second into a field.
func rateInto(field func(*pb.Lending) *uint64, nothing string) func(*option.Invocation, string, *pb.Lending) error {
	return func(inv *option.Invocation, long string, terms *pb.Lending) error {
		if strings.EqualFold(inv.Text(long), unlimited) {
			return nil
		}
		bytes, err := spec.ParseSize(inv.Text(long), 1<<20)
		if err != nil {
			return inv.Fail("--%s: %w a second, or unlimited", long, err)
		}
		if bytes == 0 {
			return inv.Fail("--%s=%s: %s: --hours=never lends to nobody", long, inv.Text(long), nothing)
		}
		*field(terms) = bytes
		return nil
	}
}

// readPower reads what a GPU draws that a guest has.
func readPower(inv *option.Invocation, long string, terms *pb.Lending) error {
	if strings.EqualFold(inv.Text(long), unlimited) {
		return nil
	}
	watts, err := strconv.ParseUint(strings.TrimSuffix(strings.ToLower(inv.Text(long)), "w"), 10, 32)
	if err != nil || watts == 0 {
		return inv.Fail("--%s=%s: type watts, as in 200W, or unlimited; --gpus=0%% lends no GPUs", long, inv.Text(long))
	}
	terms.GuestPowerWatts = uint32(watts)
	return nil
}

// readNetwork reads which network guests have.
func readNetwork(inv *option.Invocation, long string, terms *pb.Lending) error {
	word, err := spec.NetworkRule(inv.Text(long))
	if err == nil && word == "" {
		err = fmt.Errorf("name one of %s", strings.Join(spec.NetworkRules, ", "))
	}
	if err != nil {
		return inv.Fail("--%s: %w", long, err)
	}
	terms.Network = word
	return nil
}

// readNetworkAllow reads where guests may connect to.
func readNetworkAllow(inv *option.Invocation, long string, terms *pb.Lending) (err error) {
	terms.NetworkAllow, err = spec.ParseDestinations(strings.Split(inv.Text(long), ","))
	if err != nil {
		return inv.Fail("--%s: %w; or type %s or %s", long, err, spec.Everywhere, spec.Nowhere)
	}
	return nil
}

func readMaxTime(inv *option.Invocation, long string, terms *pb.Lending) (err error) {
	if strings.EqualFold(inv.Text(long), unlimited) {
		terms.MaxUnsavedS = spec.Unlimited
		return nil
	}
	if terms.MaxUnsavedS, err = spec.ParseDuration(inv.Text(long)); err != nil {
		return inv.Fail("--max-time: %w, or unlimited", err)
	}
	return nil
}

func readKill(inv *option.Invocation, long string, terms *pb.Lending) (err error) {
	terms.Unbounded, err = readYesNo(inv, long)
	return err
}

func readNested(inv *option.Invocation, long string, terms *pb.Lending) (err error) {
	terms.NestedContainers, err = readYesNo(inv, long)
	return err
}

func readYesNo(inv *option.Invocation, long string) (bool, error) {
	switch strings.ToLower(inv.Text(long)) {
	case "yes":
		return true, nil
	case "no":
		return false, nil
	}
	return false, inv.Fail("--%s=%s: type yes or no", long, inv.Text(long))
}

// localZone is the name of this machine's time zone: that of the environment, or that to
// which its settings in a directory point. UTC where nothing says it.
func localZone(environment, etc string) string {
	if name := strings.TrimPrefix(environment, ":"); name != "" && !filepath.IsAbs(name) {
		return name
	}
	if target, err := filepath.EvalSymlinks(filepath.Join(etc, "localtime")); err == nil {
		if _, name, found := strings.Cut(target, "/zoneinfo/"); found {
			return name
		}
	}
	text, _ := os.ReadFile(filepath.Join(etc, "timezone"))
	return cmp.Or(strings.TrimSpace(string(text)), "UTC")
}

// triggerWords are the triggers that --triggers names.
var triggerWords = map[string]pb.ReclaimTrigger{
	"gpu": pb.ReclaimTrigger_RECLAIM_TRIGGER_GPU_PROCESS, "login": pb.ReclaimTrigger_RECLAIM_TRIGGER_LOGIN,
}

func readTriggers(inv *option.Invocation, long string, terms *pb.Lending) error {
	if strings.EqualFold(inv.Text(long), "none") {
		return nil
	}
	for word := range strings.SplitSeq(inv.Text(long), ",") {
		trigger, known := triggerWords[strings.ToLower(word)]
		if !known {
			return inv.Fail("--triggers=%s: type gpu, login, both as in gpu,login, or none", inv.Text(long))
		}
		terms.Triggers = append(terms.Triggers, trigger)
	}
	return nil
}

func readQuiet(inv *option.Invocation, long string, terms *pb.Lending) (err error) {
	if terms.QuietS, err = spec.ParseDuration(inv.Text(long)); err != nil {
		return inv.Fail("--quiet: %w", err)
	}
	return nil
}
