package container

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// byName starts a script in Python that says "ready", in a directory of its home.
func (b *bed) byName(program string) *supervisor {
	b.t.Helper()
	must(b.t, os.RemoveAll(b.home()+"/work"))
	must(b.t, os.Mkdir(b.home()+"/work", 0o700))
	must(b.t, os.Chown(b.home()+"/work", testUID, testUID))
	if err := os.Remove(b.output()); err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	s := b.start()
	s.must(order{Do: "start", Script: "#!/usr/bin/python3\nimport ctypes, mmap, os, shutil, socket, subprocess, time\nlibc = ctypes.CDLL(None)\nos.chdir('work')\nwork = os.getcwd()\n" +
		program + "\nprint('ready', flush=True)\nwhile not os.path.exists(work + '/go'): time.sleep(0.05)\n"})
	eventually(b.t, "it is ready", func() bool { return strings.Contains(b.read(), "ready") })
	return s
}

func needsPython(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("needs /usr/bin/python3: opens what no shell opens")
	}
}

// What CRIU would make, remove or write to by a path that others can lead elsewhere is
// not saved, and the sentence says what it is.
func TestNothingIsMadeByName(t *testing.T) {
	needsPython(t)
	b := newBed(t)
	for _, c := range []struct {
		what, program, want string
		early, passing      bool
	}{
		{what: "a directory", program: "os.mkdir('gone'); f = os.open('gone', os.O_RDONLY); os.rmdir('gone')", want: "work/gone, which was removed", early: true},
		{what: "the work directory", program: "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')", want: "work/gone, which was removed", early: true},
		{what: "a file", program: "f = open('gone', 'w+'); f.write('mine'); f.flush(); os.unlink('gone')", want: "work/gone, which was removed", early: true},
		{what: "a file with another name", program: "f = open('gone', 'w+'); os.link('gone', 'left'); os.unlink('gone')", want: "work/gone, which was removed", early: true},
		{what: "a named pipe", program: "os.mkfifo('gone'); f = os.open('gone', os.O_RDWR); os.unlink('gone')", want: "work/gone, which was removed", early: true},
		{what: "a mapped file", program: "f = open('gone', 'w+b'); f.truncate(4096); m = mmap.mmap(f.fileno(), 4096); os.unlink('gone'); f.close()", want: "work/gone, which was removed", early: true},
		{what: "a program", program: "shutil.copy('/bin/sleep', 'gone'); p = subprocess.Popen(['./gone', '1000']); time.sleep(0.2); os.unlink('gone')", want: "work/gone, which was removed", early: true},
		{what: "what its server keeps for it", program: "f = open('.nfs' + 24 * '0', 'w')", want: "which was removed", early: true},
		{what: "a socket", program: "s = socket.socket(socket.AF_UNIX); s.bind(work + '/made'); s.listen()", want: "a unix socket at", early: true},
		{what: "a socket for datagrams", program: "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind(work + '/made')", want: "a unix socket at", early: true},
		{what: "a socket that was removed", program: "s = socket.socket(socket.AF_UNIX); s.bind(work + '/made'); s.listen(); os.unlink('made')", want: "a unix socket at", early: true},
		{what: "a socket behind a link", program: "os.symlink(work, '/tmp/link'); s = socket.socket(socket.AF_UNIX); s.bind('/tmp/link/made')", want: "a unix socket at /tmp/link/made", early: true},
		{what: "a socket whose directory is a link now", program: "os.mkdir('/tmp/d'); s = socket.socket(socket.AF_UNIX); s.bind('/tmp/d/made'); os.rename('/tmp/d', '/tmp/e'); os.symlink(work, '/tmp/d')", want: "a unix socket at /tmp/d/made", early: true},
		{what: "a directory below what is a link now", program: "os.makedirs('/dev/shm/d/gone'); f = os.open('/dev/shm/d/gone', os.O_RDONLY); shutil.rmtree('/dev/shm/d'); os.symlink(work, '/dev/shm/d')", want: "/dev/shm/d/gone, which was removed", early: true},
		{what: "a watch without a path", program: "i = libc.inotify_init1(0); assert libc.inotify_add_watch(i, b'/etc/passwd', 2) > 0", want: "watches a file (inotify)"},
		{what: "a socket by a relative path", program: "s = socket.socket(socket.AF_UNIX); s.bind('made'); s.listen()", want: "a unix socket at"},
		{what: "what a named pipe holds", program: "os.mkfifo('pipe'); f = os.open('pipe', os.O_RDWR); os.write(f, b'mine')", want: "in the named pipe", passing: true},
		{what: "a file on its way", program: "f = open('sent', 'w'); a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [f.fileno()]); f.close()", want: "a descriptor of", passing: true},
		{what: "a watch on its way", program: "i = libc.inotify_init1(0); libc.inotify_add_watch(i, b'.', 2); a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [i]); os.close(i)", want: "a descriptor that watches files", passing: true},
	} {
		t.Run(c.what, func(t *testing.T) {
			outer := b.t
			b.t = t
			defer func() { b.t = outer }()
			s := b.byName(c.program)
			found := strings.Join(s.must(order{Do: "reasons"}).Reasons, "\n")
			if c.early != strings.Contains(found, c.want) || !c.early && found != "" {
				t.Errorf("it says %q", found)
			}
			s.must(order{Do: "freeze"})
			r := s.do(order{Do: "save", Image: b.image(s.id)})
			t.Log(r.Error)
			if !isAny(r, "obstacles") || isAny(r, "between") != c.passing || !strings.Contains(r.Error, c.want) {
				t.Errorf("saving it: %q, %v\n%s", r.Error, r.Is, b.log())
			}
			s.must(order{Do: "end"})
		})
	}
}

// The same in what is the job's alone is saved and resumes.
func TestOwnFilesAreMadeAgain(t *testing.T) {
	needsPython(t)
	b := newBed(t)
	s := b.byName(`
def gone(path):
    f = open(path, 'w+'); f.write('mine'); f.flush(); os.unlink(path)
    return f
files = [gone(d + '/gone') for d in ('/tmp', '/var/tmp', '/dev/shm')]
os.makedirs('/tmp/up/gone'); up = os.open('/tmp/up/gone', os.O_RDONLY); shutil.rmtree('/tmp/up')
l = socket.socket(socket.AF_UNIX); l.bind('/tmp/made'); l.listen()
os.mkfifo('pipe'); pipe = os.open('pipe', os.O_RDWR)
# Memory that processes share has the names of files that never were.
shared = mmap.mmap(-1, 4096); shared.write(b'kept')
segment = libc.shmget(0, 4096, 0o1600); libc.shmat.restype = ctypes.c_void_p; attached = libc.shmat(segment, None, 0)
ctypes.memmove(attached, b'kept', 4)
memfd = os.memfd_create('m'); os.truncate(memfd, 4096); mapped = mmap.mmap(memfd, 4096); mapped.write(b'kept')
def intact():
    if not (shared[:4] == mapped[:4] == ctypes.string_at(attached, 4) == b'kept'): os._exit(9)
import atexit; atexit.register(intact)
os.mkfifo('/tmp/pipe'); own = os.open('/tmp/pipe', os.O_RDWR); os.write(own, b'kept')
i = libc.inotify_init1(0o4000)
for path in (b'.', b'/tmp', b'/dev/shm', b'/etc', b'pipe'): assert libc.inotify_add_watch(i, path, 0x100) > 0`)
	image, r := s.save()
	s.must(order{Do: "end"})
	// Where something of the host's is mounted at one of these paths, it is refused.
	for _, mounts := range [][]string{{"/tmp/made"}, {"/dev", "/dev/shm"}, {"/tmp", "/var"}, {"/tmp/up"}} {
		if err := (&Image{Dir: image, Manifest: &checkpoint.Manifest{Mounts: mounts}}).checkNamed(); !errors.Is(err, ErrMisfit) {
			t.Errorf("with mounts at %v: %v", mounts, err)
		}
	}
	must(t, (&Image{Dir: image, Manifest: r.Manifest}).checkNamed())
	s = b.start()
	s.must(order{Do: "restore", Image: image})
	must(t, os.WriteFile(b.home()+"/work/go", nil, 0o644))
	if r := s.must(order{Do: "wait"}); r.Code != 0 {
		t.Errorf("it ended with %d, and printed %q", r.Code, b.read())
	}
}

// A watch tells what happens in a directory. A restored job watches nothing that its
// user could not.
func TestRestoredWatches(t *testing.T) {
	needsPython(t)
	b := newBed(t)
	theirs := b.home() + "/theirs"
	must(t, os.Mkdir(theirs, 0o700))
	must(t, os.Mkdir(theirs+"/dir", 0o700))
	for _, name := range []string{"dir/file", "file"} {
		must(t, os.WriteFile(theirs+"/"+name, nil, 0o600))
	}
	out, err := exec.Command("chown", "-R", "4999:4999", theirs).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := b.byName(`
os.mkdir('dir'); open('file', 'w').close(); open('dir/file', 'w').close()
i = libc.inotify_init1(0)
for path in (b'dir', b'file', b'dir/file'): assert libc.inotify_add_watch(i, path, 0xfff) > 0
os.chdir('/')`)
	image, _ := s.save()
	s.must(order{Do: "end"})
	work, aside := b.home()+"/work", b.home()+"/aside"
	for _, c := range []struct{ what, name, to string }{
		{"a directory above", "", theirs}, {"the directory", "/dir", theirs}, {"a file, by a link", "/file", theirs + "/file"},
		{"a file of the root's", "/file", "/etc/shadow"}, {"its own directory, by a link", "/dir", aside},
	} {
		must(t, os.Rename(work+c.name, aside))
		must(t, os.Symlink(c.to, work+c.name))
		next := b.start()
		if r := next.do(order{Do: "restore", Image: image}); r.Error == "" {
			t.Errorf("%s: it was restored, and watches what is at %s", c.what, c.to)
			next.must(order{Do: "end"})
		} else if !isAny(r, "misfit") || !strings.Contains(r.Error, "it watched "+work) {
			t.Errorf("%s: %s", c.what, r.Error)
		}
		must(t, os.Remove(work+c.name))
		must(t, os.Rename(aside, work+c.name))
	}
	must(t, os.Rename(work+"/file", aside))
	must(t, os.WriteFile(work+"/file", nil, 0o600)) // root's: its user may not read it
	next := b.start()
	if r := next.do(order{Do: "restore", Image: image}); !isAny(r, "misfit") {
		t.Errorf("a file that it may not read: %q", r.Error)
	}
	must(t, os.Rename(aside, work+"/file"))
	next = b.start()
	next.must(order{Do: "restore", Image: image})
	must(t, os.WriteFile(work+"/go", nil, 0o644))
	if r := next.must(order{Do: "wait"}); r.Code != 0 {
		t.Errorf("restored as it was: it ended with %d, and printed %q", r.Code, b.read())
	}
}
