package machine

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

const qemu = "qemu-system-x86_64"

// kernel is what contrib/setup/debian.sh puts into the cache directory.
type kernel struct {
	image   string
	modules string // directory of the modules that the cases need
}

// findKernel looks for what the machine needs, and skips the test without it.
func findKernel(t *testing.T) kernel {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("needs a cache directory, where the kernel is: %v", err)
	}
	directory := filepath.Join(cache, "gleaner", "machine")
	k := kernel{image: filepath.Join(directory, "vmlinuz"), modules: filepath.Join(directory, "modules")}
	for _, path := range []string{k.image, k.modules} {
		if _, err := os.Stat(path); err != nil {
			t.Skipf("needs a kernel: %v: run contrib/setup/debian.sh machine", err)
		}
	}
	for _, program := range []string{qemu, "mke2fs"} {
		if _, err := find(program); err != nil {
			t.Skipf("needs %s: run contrib/setup/debian.sh machine", program)
		}
	}
	if _, err := os.Stat("../../bin/gnoded"); err != nil {
		t.Skipf("needs the binaries: run `make build`: %v", err)
	}
	return k
}

// find is exec.LookPath, also for a user whose path lacks the directories of
// the system's programs.
func find(program string) (string, error) {
	for _, directory := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/bin", "/sbin", "/bin") {
		path := filepath.Join(directory, program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", program, exec.ErrNotFound)
}

// programs are what stories and tests use, or may well use, of Debian's bash,
// coreutils, diffutils, findutils, grep, mawk, perl-base, procps, sed and
// util-linux. A story that fails in the machine alone may miss one here.
const programs = `awk base64 basename bash cat chmod chown cmp comm cp cut date dd diff dirname echo env expr fallocate
false find grep gzip head hostname id kill ln ls mkdir mkfifo mkfs.ext4 mknod mktemp mount mv nice nohup nproc od paste
md5sum nsenter perl pgrep pkill printf ps pwd readlink rm rmdir sed seq setpriv setsid sh sha256sum sleep sort stat su
sync tac tail tar tee test timeout touch tr true truncate umount uname uniq unshare wc xargs`

// accounts are the system's own; the stories add their users.
var accounts = map[string]string{
	"/etc/passwd":        "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/:/usr/sbin/nologin\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
	"/etc/group":         "root:x:0:\ndaemon:x:1:\ntty:x:5:\nshadow:x:42:\nnogroup:x:65534:\n",
	"/etc/shadow":        "root:*:19000:0:99999:7:::\n",
	"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	"/etc/hosts":         "127.0.0.1 localhost machine\n",
	"/etc/hostname":      "machine\n",
}

// directories of a Debian system, with their modes.
var directories = map[string]os.FileMode{
	"/dev": 0o755, "/etc": 0o755, "/home": 0o755, "/machine/modules": 0o755, "/mnt": 0o755, "/opt": 0o755,
	"/proc": 0o755, "/root": 0o700, "/run": 0o755, "/src": 0o755, "/srv": 0o755, "/sys": 0o755,
	"/tmp": 0o777 | os.ModeSticky, "/usr/bin": 0o755, "/usr/lib": 0o755, "/usr/lib64": 0o755, "/usr/sbin": 0o755,
	"/var/lib": 0o755, "/var/tmp": 0o777 | os.ModeSticky,
}

// tree is the directory that becomes the machine's root.
type tree struct {
	t    *testing.T
	root string
}

// makeDisk makes the machine's disk: an ext4 image of a small Debian made of
// copies of the host's programs, with the project's binaries and tests.
func makeDisk(t *testing.T, kernel kernel) (image string) {
	t.Helper()
	work := t.TempDir()
	b := &tree{t, filepath.Join(work, "root")}
	for path, mode := range directories {
		b.check(os.MkdirAll(b.path(path), 0o755))
		b.check(os.Chmod(b.path(path), mode))
	}
	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		b.check(os.Symlink("usr/"+name, b.path(name)))
	}
	for path, text := range accounts {
		b.check(os.WriteFile(b.path(path), []byte(text), 0o644))
	}
	b.check(os.Chmod(b.path("/etc/shadow"), 0o640))
	for _, name := range strings.Fields(programs) {
		b.program(name)
	}
	b.check(os.CopyFS(b.path(Modules), os.DirFS(kernel.modules)))
	b.criu()
	b.project()
	image = filepath.Join(work, "disk")
	b.format(image)
	return image
}

func (b *tree) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *tree) path(inside string) string { return filepath.Join(b.root, inside) }

// criu puts in the CRIU that the project's set-up has fetched, with the libraries
// that came with it, or this machine's own.
func (b *tree) criu() {
	folder := filepath.Dir(checkpoint.PrivateProgram)
	if _, err := os.Stat(checkpoint.PrivateProgram); err == nil {
		b.check(os.MkdirAll(b.path(filepath.Dir(folder)), 0o755))
		b.check(os.CopyFS(b.path(folder), os.DirFS(folder)))
		return
	}
	if _, err := find("criu"); err != nil {
		b.t.Skip("needs CRIU: run contrib/setup/debian.sh criu")
	}
	b.program("criu")
}

// project puts in what the cases run: the binaries, and the compiled tests with
// their data, where they find it as in the source.
func (b *tree) project() {
	source, err := filepath.Abs("../..")
	b.check(err)
	b.check(os.CopyFS(b.path("/src/bin"), os.DirFS(filepath.Join(source, "bin"))))
	for _, name := range []string{"gctld", "gnoded", "gleaner"} {
		b.libraries(filepath.Join(source, "bin", name))
	}
	b.build("init", "./test/machine/init")
	b.compile()
	for _, folder := range packages {
		b.check(os.MkdirAll(b.path("/src/"+folder), 0o755))
		data := filepath.Join(source, folder, "testdata")
		if _, err := os.Stat(data); err == nil {
			b.check(os.CopyFS(b.path("/src/"+folder+"/testdata"), os.DirFS(data)))
		}
	}
	text, err := json.Marshal(cases)
	b.check(err)
	b.check(os.WriteFile(b.path(Cases), text, 0o644))
}

// build builds a program without C, which needs no libraries.
func (b *tree) build(name, folder string) {
	b.t.Helper()
	b.goTool([]string{"CGO_ENABLED=0"}, "build", "-o", b.path(filepath.Join(Directory, name)), folder)
}

// compile compiles the tests of the packages, beside one another.
func (b *tree) compile() {
	b.t.Helper()
	arguments := []string{"test", "-c", "-vet", "off", "-tags", "seccomp,libsqlite3,urfave_cli_no_docs,grpcnotrace,netgo", "-ldflags", "-s -w", "-o", b.path(Directory) + "/"}
	for _, folder := range packages {
		arguments = append(arguments, "./"+folder)
	}
	b.goTool(nil, arguments...)
	for _, folder := range packages {
		b.libraries(b.path(filepath.Join(Directory, filepath.Base(folder)+".test")))
	}
}

func (b *tree) goTool(environment []string, arguments ...string) {
	b.t.Helper()
	command := exec.Command("go", arguments...)
	command.Dir = "../.."
	command.Env = append(os.Environ(), environment...)
	if out, err := command.CombinedOutput(); err != nil {
		b.t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
}

// program copies one of the host's programs, and what it is linked with.
func (b *tree) program(name string) {
	b.t.Helper()
	from, err := find(name)
	b.check(err)
	b.copy(from, "/usr/bin/"+name)
	b.libraries(from)
}

// libraries copies the shared libraries that a program is linked with. One
// without any is none to complain about.
func (b *tree) libraries(program string) {
	b.t.Helper()
	out, _ := exec.Command("ldd", program).Output()
	for line := range strings.Lines(string(out)) {
		for _, word := range strings.Fields(line) {
			if filepath.IsAbs(word) {
				b.copy(word, word)
			}
		}
	}
}

// copy copies a file of the host, unless it is there, through the links of both.
func (b *tree) copy(from, inside string) {
	b.t.Helper()
	target := b.path(inside)
	if _, err := os.Lstat(target); err == nil {
		return
	}
	b.check(os.MkdirAll(filepath.Dir(target), 0o755))
	in, err := os.Open(from)
	b.check(err)
	defer in.Close()
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	b.check(err)
	_, err = io.Copy(out, in)
	b.check(err)
	b.check(out.Close())
}

// format makes the image of the tree. In it all files are root's: a caller
// who is not root looks at them from a user namespace in which they are.
func (b *tree) format(image string) {
	b.t.Helper()
	mke2fs, err := find("mke2fs")
	b.check(err)
	command := exec.Command(mke2fs, "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard",
		"-d", b.root, image, "1G")
	if os.Geteuid() != 0 {
		command.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		}
	}
	if out, err := command.CombinedOutput(); err != nil {
		b.t.Fatalf("make the disk: %v\n%s", err, out)
	}
}
