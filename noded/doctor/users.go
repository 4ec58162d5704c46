package doctor

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// directory services whose programs are asked over a socket, by their word in
// nsswitch.conf. Jobs find the socket, or they do not.
var nameServices = map[string]struct {
	socket string
	inJobs bool
	fix    string
}{
	"sss":     {"/var/lib/sss/pipes/nss", true, "systemctl enable --now sssd"},
	"ldap":    {"/run/nslcd/socket", false, "apt-get install nscd && systemctl enable --now nscd, or use sssd in place of nslcd"},
	"winbind": {"/run/samba/winbindd/pipe", false, "apt-get install nscd && systemctl enable --now nscd, or use sssd in place of winbind"},
}

// nscdSocket answers for all services, also in jobs.
const nscdSocket = "/run/nscd/socket"

func (d *doctor) checkUsers(context.Context) []finding.Finding { return judgeUsers("/") }

// judgeUsers looks at the accounts of the system below root.
func judgeUsers(root string) []finding.Finding {
	const name = "users"
	people, taken := 0, []string{}
	for fields := range colonLines(filepath.Join(root, "etc/passwd")) {
		if id, err := strconv.ParseInt(field(fields, 2), 10, 64); err == nil {
			if id >= 1000 && id < 60000 {
				people++
			}
			if id >= container.HostIDBase && id < container.HostIDBase+container.MappedIDs {
				taken = append(taken, fmt.Sprintf("user %s has the number %d", fields[0], id))
			}
		}
	}
	for _, file := range []string{"etc/subuid", "etc/subgid"} {
		for fields := range colonLines(filepath.Join(root, file)) {
			first, err := strconv.ParseInt(field(fields, 1), 10, 64)
			count, err2 := strconv.ParseInt(field(fields, 2), 10, 64)
			if err == nil && err2 == nil && first < container.HostIDBase+container.MappedIDs && first+count > container.HostIDBase {
				taken = append(taken, fmt.Sprintf("/%s gives %s the numbers %d to %d", file, fields[0], first, first+count-1))
			}
		}
	}
	if len(taken) > 0 {
		return []finding.Finding{finding.Bad(name, few(taken), "jobs use these numbers for everybody else: what is theirs there would be a job's",
			fmt.Sprintf("give out other numbers than %d to %d", container.HostIDBase, container.HostIDBase+container.MappedIDs-1))}
	}
	services := passwdServices(filepath.Join(root, "etc/nsswitch.conf"))
	if found := judgeServices(root, services); found != nil {
		return []finding.Finding{*found}
	}
	directory := slices.ContainsFunc(services, func(s string) bool { _, ok := nameServices[s]; return ok })
	if people == 0 && !directory {
		return []finding.Finding{finding.Doubtful(name, "/etc/passwd has no ordinary user, and no directory service is asked",
			"nobody's jobs can run here: a job runs as the user who submitted it, with the same number on every node", "useradd -m -u NUMBER NAME, as on the other nodes")}
	}
	return []finding.Finding{finding.Good(name, fmt.Sprintf("%d in /etc/passwd; names come from %s", people, strings.Join(services, ", ")))}
}

// judgeServices answers what is wrong with a directory service, or nil.
func judgeServices(root string, services []string) *finding.Finding {
	exists := func(path string) bool { _, err := os.Lstat(filepath.Join(root, path)); return err == nil }
	for _, word := range services {
		service, ok := nameServices[word]
		if !ok || exists(nscdSocket) {
			continue
		}
		var bad finding.Finding
		switch {
		case service.inJobs && !exists(service.socket):
			bad = finding.Bad("users", fmt.Sprintf("nsswitch.conf asks %s, and %s is not there: its program does not run", word, service.socket),
				"users are unknown here, and their jobs fail", service.fix)
		case !service.inJobs:
			bad = finding.Doubtful("users", fmt.Sprintf("nsswitch.conf asks %s, whose socket %s jobs do not see", word, service.socket),
				"inside a job only its own user has a name; ls -l and ~name show numbers", service.fix)
		default:
			continue
		}
		return &bad
	}
	return nil
}

// passwdServices are the words after "passwd:" of nsswitch.conf.
func passwdServices(path string) []string {
	for fields := range colonLines(path) {
		if fields[0] == "passwd" {
			return strings.Fields(field(fields, 1))
		}
	}
	return []string{"files"}
}

// colonLines reads the lines of a file, each split at its colons.
func colonLines(path string) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		file, err := os.Open(path)
		if err != nil {
			return
		}
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			text, _, _ := strings.Cut(lines.Text(), "#")
			if text != "" && !yield(strings.Split(text, ":")) {
				return
			}
		}
	}
}

func field(fields []string, n int) string {
	if n < len(fields) {
		return strings.TrimSpace(fields[n])
	}
	return ""
}
