package history

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// server is Debian's PostgreSQL, with a folder and a socket of its own.
type server struct {
	folder  string
	as      *syscall.Credential // nil = the user of the test
	bin     string
	process *exec.Cmd
	made    int
}

// all is the server of all tests, started by the first that needs it.
var all = sync.OnceValues(startServer)

// TestMain stops it.
func TestMain(m *testing.M) {
	status := m.Run()
	if started != nil {
		started.stop()
		_ = os.RemoveAll(started.folder)
	}
	os.Exit(status)
}

var started *server

// errNoServer is why these tests are skipped.
var errNoServer = errors.New("PostgreSQL is not installed")

func startServer() (*server, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return nil, errNoServer
	}
	s := &server{bin: filepath.Dir(found[len(found)-1])}
	folder, err := os.MkdirTemp("/tmp", "gleaner-postgres-") // a socket's path must be short
	if err != nil {
		return nil, err
	}
	s.folder, started = folder, s
	if os.Geteuid() == 0 { // as whom it refuses to run
		nobody, err := user.Lookup("nobody")
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.Atoi(nobody.Uid)
		gid, _ := strconv.Atoi(nobody.Gid)
		s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(folder, uid, gid); err != nil {
			return nil, err
		}
	}
	if out, err := s.command("initdb", "-D", s.data(), "-U", "gleaner", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	return s, s.start()
}

func (s *server) data() string { return filepath.Join(s.folder, "data") }

func (s *server) command(name string, words ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(s.bin, name), words...)
	command.Dir = s.folder
	command.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=" + s.folder}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return command
}

// start starts it and waits until it answers.
func (s *server) start() error {
	s.process = s.command("postgres", "-D", s.data(), "-k", s.folder, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=4MB", "-c", "autovacuum=off")
	var said bytes.Buffer
	s.process.Stderr = &said
	if err := s.process.Start(); err != nil {
		return err
	}
	pool, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		return err
	}
	defer pool.Close()
	for end := time.Now().Add(prototest.Patience); ; time.Sleep(20 * time.Millisecond) {
		if err = pool.Ping(); err == nil {
			return nil
		}
		if time.Now().After(end) {
			s.stop()
			return fmt.Errorf("%w: %s", err, said.String())
		}
	}
}

// stop ends it at once, as a crash does; its children too.
func (s *server) stop() {
	if s.process == nil || s.process.Process == nil {
		return
	}
	_ = s.process.Process.Signal(syscall.SIGQUIT)
	_ = s.process.Wait()
}

func (s *server) url(name string) string {
	return fmt.Sprintf("postgres://gleaner@/%s?host=%s", name, s.folder)
}

// postgres is an empty schema, which costs less than a database.
func postgres(t *testing.T) (s *server, url string) {
	t.Helper()
	s, err := all()
	if errors.Is(err, errNoServer) {
		t.Skip("needs PostgreSQL: contrib/setup/debian.sh postgres installs it")
	}
	if err != nil {
		t.Fatal(err)
	}
	s.made++
	name := fmt.Sprint("history", s.made)
	execute(t, s.url("postgres"), "CREATE SCHEMA "+name)
	return s, s.url("postgres") + "&search_path=" + name
}

func execute(t *testing.T, url string, statements ...string) {
	t.Helper()
	pool, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, statement := range statements {
		if _, err := pool.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// TestPostgres: it does what SQLite does.
func TestPostgres(t *testing.T) {
	for what, test := range map[string]func(*testing.T, string){
		"ended runs arrive": endedRunsArrive,
		"events are apart":  eventsAreApart,
		"sums":              sumsAreThoseOfTheRuns,
		"a gap is copied":   func(t *testing.T, url string) { gapIsCopied(t, url) },
		"old runs are archived": func(t *testing.T, url string) {
			oldRunsAreArchived(t, url)
		},
	} {
		t.Run(what, func(t *testing.T) {
			_, url := postgres(t)
			test(t, url)
		})
	}
}

// TestPostgresShared: controllers that write to one database write each run once, at the
// same time too, and one that was away for long writes nothing again that was purged.
func TestPostgresShared(t *testing.T) {
	_, url := postgres(t)
	c := newCluster(t)
	keepers := []*Keeper{newKeeperOf(t, c, nil, url), newKeeperOf(t, c, nil, url), newKeeperOf(t, c, nil, url)}
	for range 3 {
		c.end(45)
		var together sync.WaitGroup
		for _, k := range keepers {
			together.Go(func() {
				if err := k.work(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		together.Wait()
	}
	for _, k := range keepers {
		wants(t, k, c.View())
		if k.Through() != keepers[0].Through() {
			t.Errorf("through %d and %d", k.Through(), keepers[0].Through())
		}
	}
	rows := dump(t, keepers[0])
	execute(t, url, "DELETE FROM gleaner_runs")
	if err := keepers[1].database.Put(context.Background(), 0, rows[len(rows)-1].At, rows); err != nil {
		t.Fatal(err)
	}
	if again := dump(t, keepers[0]); len(again) != 0 {
		t.Errorf("%d runs came again", len(again))
	}
}

// TestPostgresAway: while the server is down, or somebody has locked the tables, nothing
// is lost, and Through does not move. Afterwards it is all there, by itself.
func TestPostgresAway(t *testing.T) {
	s, url := postgres(t)
	c := newCluster(t)
	k := newKeeperOf(t, c, nil, url)
	c.end(5)
	mustWork(t, k)
	refuses := func(how string) {
		t.Helper()
		before := k.Through()
		c.end(45)
		limited, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		if err := k.work(limited); err == nil || k.Through() != before {
			t.Errorf("%s: %v, through %d after %d", how, err, k.Through(), before)
		}
	}

	holder, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	tx, err := holder.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("LOCK TABLE gleaner_runs"); err != nil {
		t.Fatal(err)
	}
	refuses("locked")
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	mustWork(t, k)
	wants(t, k, c.View())

	s.stop()
	refuses("down")
	if _, err := k.Read(context.Background(), Choice{}, k.Through(), runs(func(*pb.PastRun) {})); err == nil {
		t.Error("it was read while the server was down")
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	mustWork(t, k)
	wants(t, k, c.View())
}

// TestPostgresRestored: a database that was restored from an older backup gets from the
// outbox, and from other controllers, what it has lost. One of another cluster, whose
// runs this one cannot have, is not touched.
func TestPostgresRestored(t *testing.T) {
	_, url := postgres(t)
	c := newCluster(t)
	beside := newKeeper(t, c, nil)
	k := newKeeperOf(t, c, &others{keepers: []*Keeper{beside}}, url)
	c.end(50)
	mustWork(t, k)
	mustWork(t, beside)
	old := dump(t, k)[20].At
	c.apply(state.TrimHistory{Through: k.Through()})
	c.end(7)
	mustWork(t, k)
	mustWork(t, beside)
	execute(t, url, fmt.Sprintf("DELETE FROM gleaner_runs WHERE at > %d", old), fmt.Sprintf("UPDATE gleaner_watermark SET through = %d", old))
	c.end(3)
	mustWork(t, beside)
	mustWork(t, k)
	wantEqual(t, beside, k)

	second := newCluster(t)
	second.end(1)
	other := newKeeperOf(t, second, nil, url)
	for range 2 {
		err := other.work(context.Background())
		if late := other.began.IsZero(); late != (err != nil) || late && !strings.Contains(err.Error(), "another cluster") {
			t.Errorf("another cluster's database: %v", err)
		}
		if other.Through() != 0 {
			t.Error("it says that it has runs of this cluster")
		}
		other.began = time.Time{}
	}
}

// TestPostgresTakesOver: what the file had before the site named a server is copied there.
func TestPostgresTakesOver(t *testing.T) {
	_, url := postgres(t)
	c := newCluster(t)
	file := newKeeper(t, c, nil)
	c.end(50)
	mustWork(t, file)
	c.apply(state.TrimHistory{Through: file.Through()})
	file.close()
	k := New(c, &others{}, Options{Path: file.options.Path, URL: url, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(k.close)
	mustWork(t, k)
	wantEqual(t, file, k)
}

// TestPostgresTexts: a text that PostgreSQL would refuse does not stop history. The run
// itself stays what it was.
func TestPostgresTexts(t *testing.T) {
	_, url := postgres(t)
	k := newKeeperOf(t, newCluster(t), nil, url)
	mustWork(t, k)
	odd := &pb.PastRun{Job: &pb.Job{
		Id: &pb.JobId{Job: 1}, Owner: &pb.Identity{User: "a\x00b"}, Spec: &pb.JobSpec{Account: "'; DROP TABLE gleaner_runs; --"},
		Allocation: []*pb.NodeAllocation{{Devices: []*pb.AllocatedDevice{{Model: "x\x00\\x00"}}}},
	}}
	raw, err := proto.Marshal(odd)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.database.Put(context.Background(), 0, 5, []Row{{At: 5, Run: raw}}); err != nil {
		t.Fatal(err)
	}
	found := 0
	err = k.database.Read(context.Background(), Choice{Users: []string{"a\x00b"}, Accounts: []string{odd.Job.Spec.Account}}, 5, runs(func(run *pb.PastRun) {
		found++
		if !proto.Equal(run, odd) {
			t.Errorf("%v", run)
		}
	}))
	if err != nil || found != 1 {
		t.Errorf("%d: %v", found, err)
	}
}

// TestPostgresRefuses: tables of a newer program, and an address or a database that cannot
// work, with what to do. No password is shown.
func TestPostgresRefuses(t *testing.T) {
	s, url := postgres(t)
	k := newKeeperOf(t, newCluster(t), nil, url)
	mustWork(t, k)
	execute(t, url, fmt.Sprint("UPDATE gleaner_watermark SET version = ", schemaVersion+1))
	k.close()
	if err := k.work(context.Background()); !errors.Is(err, ErrNewer) {
		t.Errorf("%v", err)
	}
	execute(t, s.url("postgres"), "CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
	if _, err := OpenPostgres(context.Background(), s.url("ascii")); err == nil || !strings.Contains(err.Error(), "--encoding=UTF8") {
		t.Errorf("%v", err)
	}
	k = newKeeperOf(t, newCluster(t), nil, "postgres://gleaner:secret@/nothing?host="+s.folder)
	err := k.work(context.Background())
	if err == nil {
		t.Fatal("a database that is not there was opened")
	}
	why := err.Error()
	k.problem.Store(&why)
	if said := k.Problem(); strings.Contains(said, "secret") || !strings.Contains(said, "nothing") {
		t.Error(said)
	}
}

// TestPostgresAddress: what cannot be an address is refused without a server.
func TestPostgresAddress(t *testing.T) {
	for url, good := range map[string]bool{
		"postgres://gleaner@db.lab/gleaner": true, "postgresql:///gleaner?host=/run/postgresql": true, "postgres://db/x?sslmode=verify-full": true,
		"mysql://db/x": false, "db.lab": false, "postgres://u:secret@db:port/x": false, "postgres://u:secret@db/x?sslmode=perhaps": false,
	} {
		err := CheckPostgres(url)
		if (err == nil) != good || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
