package doctor

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// The oldest kernel: overlays over idmapped mounts came with it.
const leastMajor, leastMinor = 5, 19

// kernel is what the machine says of its kernel.
type kernel struct {
	release string
	options map[string]string // CONFIG_…: y, m or n; nil = it does not say
	source  string            // the file they are from
}

func thisKernel() kernel {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return kernel{}
	}
	k := kernel{release: unix.ByteSliceToString(name.Release[:])}
	for _, path := range []string{"/proc/config.gz", "/boot/config-" + k.release, "/lib/modules/" + k.release + "/config"} {
		if options, err := readOptions(path); err == nil {
			k.options, k.source = options, path
			break
		}
	}
	return k
}

// maxOptions bounds what is read of a kernel's configuration, unpacked.
const maxOptions = 4 << 20

func readOptions(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var text io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if text, err = gzip.NewReader(file); err != nil {
			return nil, err
		}
	}
	return parseOptions(io.LimitReader(text, maxOptions))
}

func parseOptions(text io.Reader) (map[string]string, error) {
	options := map[string]string{}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok && strings.HasPrefix(name, "CONFIG_") {
			options[name] = value
		}
	}
	return options, lines.Err()
}

// neededOptions are those without which jobs cannot be kept apart.
var neededOptions = []struct{ name, why string }{
	{"CONFIG_USER_NS", "each job has a user namespace"},
	{"CONFIG_PID_NS", "a job does not see other processes"},
	{"CONFIG_IPC_NS", "each job has its own shared memory"},
	{"CONFIG_UTS_NS", "each job has a host name"},
	{"CONFIG_NET_NS", "jobs may have a network of their own"},
	{"CONFIG_OVERLAY_FS", "a job's root is an overlay over the machine's"},
	{"CONFIG_TMPFS", "jobs have /run and /dev/shm of their own"},
	{"CONFIG_POSIX_MQUEUE", "jobs have message queues of their own"},
	{"CONFIG_UNIX98_PTYS", "jobs have terminals of their own"},
	{"CONFIG_SECCOMP_FILTER", "jobs have a system-call filter"},
	{"CONFIG_CHECKPOINT_RESTORE", "the filter is made once and read back; checkpoints"},
	{"CONFIG_MEMCG", "the memory of jobs is limited"},
	{"CONFIG_CGROUP_PIDS", "the processes of jobs are limited"},
	{"CONFIG_CGROUP_FREEZER", "jobs are frozen"},
	{"CONFIG_CPUSETS", "jobs are pinned to their CPUs"},
}

func (d *doctor) checkKernel(context.Context) []finding.Finding {
	const name = "kernel"
	debian := "install a newer one, on Debian 12: apt-get install -t bookworm-backports linux-image-amd64 && reboot"
	if major, minor, ok := parseRelease(d.kernel.release); !ok || major < leastMajor || major == leastMajor && minor < leastMinor {
		return []finding.Finding{finding.Bad(name, "Linux "+d.kernel.release,
			fmt.Sprintf("containers of jobs need Linux %d.%d or later", leastMajor, leastMinor), debian)}
	}
	if d.kernel.options == nil {
		return []finding.Finding{finding.Good(name, "Linux "+d.kernel.release+"; it does not tell its options, so each is only tried")}
	}
	var missing []string
	for _, option := range neededOptions {
		if value := d.kernel.options[option.name]; value != "y" && value != "m" {
			missing = append(missing, option.name+" ("+option.why+")")
		}
	}
	if len(missing) > 0 {
		return []finding.Finding{finding.Bad(name, fmt.Sprintf("Linux %s lacks %s (%s)", d.kernel.release, strings.Join(missing, ", "), d.kernel.source),
			"jobs do not start, or are not limited as they should", "boot a kernel that has them, as Debian's own have: apt-get install linux-image-amd64 && reboot")}
	}
	return []finding.Finding{finding.Good(name, fmt.Sprintf("Linux %s; all %d options are there (%s)", d.kernel.release, len(neededOptions), d.kernel.source))}
}

// parseRelease reads "6.1.0-18-amd64".
func parseRelease(release string) (major, minor int, ok bool) {
	first, rest, _ := strings.Cut(release, ".")
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits >= 0 {
		rest = rest[:digits]
	}
	major, err := strconv.Atoi(first)
	minor, err2 := strconv.Atoi(rest)
	return major, minor, err == nil && err2 == nil
}
