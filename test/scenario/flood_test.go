package scenario

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func init() {
	commands["flood"] = startFlood
	commands["unflood"] = endFlood
	commands["watches"] = openWatches
}

// flood is many clients of one user that submit without a pause and ignore
// refusals.
type flood struct {
	stop    chan struct{}
	clients sync.WaitGroup
	begun   time.Time

	mu       sync.Mutex
	accepted int
	refused  map[string]int // by code and words
}

// startFlood is `flood USER CLIENTS`: from now on, until unflood, so many
// clients of a user's submit held jobs past gsubmit, each on a connection of its
// own. It returns when one was refused.
func startFlood(ts *testscript.TestScript, neg bool, args []string) {
	var count int
	if _, err := fmt.Sscan(strings.Join(args[min(1, len(args)):], " "), &count); neg || len(args) != 2 || err != nil {
		ts.Fatalf("usage: flood USER CLIENTS")
	}
	f := &flood{stop: make(chan struct{}), begun: time.Now(), refused: map[string]int{}}
	floods.Store(ts.Getenv("WORK"), f)
	end := sync.OnceFunc(func() { close(f.stop); f.clients.Wait() })
	ts.Defer(end)
	refused := make(chan struct{})
	first := sync.OnceFunc(func() { close(refused) })
	for range count {
		conn := rawConnection(ts, args[0])
		f.clients.Go(func() {
			defer conn.Close()
			f.submit(pb.NewControllerClient(conn), first)
		})
	}
	select {
	case <-refused:
	case <-time.After(2 * time.Minute):
		ts.Fatalf("nothing was refused: %d submissions of %s were accepted", f.accepted, args[0])
	}
}

var floods sync.Map // by the story's directory

func (f *flood) submit(client pb.ControllerClient, refused func()) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		select {
		case <-f.stop:
			return
		default:
		}
		request := heldJob("flood")
		request.AsUser, request.RequestId = "", uuid.NewString()
		_, err := client.Submit(ctx, request)
		f.mu.Lock()
		if err == nil {
			f.accepted++
		} else {
			f.refused[status.Code(err).String()+": "+status.Convert(err).Message()]++
		}
		f.mu.Unlock()
		if err != nil {
			refused()
			time.Sleep(5 * time.Millisecond) // the others of the machine want to live too
		}
	}
}

// endFlood is `unflood BURST RATE`: ends the flood and says what came of it. More
// than the burst and the rate for as long as it lasted must not be accepted.
func endFlood(ts *testscript.TestScript, neg bool, args []string) {
	var burst, rate int
	if _, err := fmt.Sscan(strings.Join(args, " "), &burst, &rate); neg || len(args) != 2 || err != nil {
		ts.Fatalf("usage: unflood BURST RATE")
	}
	found, _ := floods.Load(ts.Getenv("WORK"))
	f, ok := found.(*flood)
	if !ok {
		ts.Fatalf("there is no flood")
	}
	close(f.stop)
	f.clients.Wait()
	lasted := time.Since(f.begun)
	f.stop = make(chan struct{}) // closed once more at the story's end
	fmt.Fprintf(ts.Stdout(), "%d accepted in %v\n", f.accepted, lasted)
	for words, count := range f.refused {
		fmt.Fprintf(ts.Stdout(), "%d refused: %s\n", count, words)
	}
	if most := burst + int(lasted.Seconds()+1)*rate; f.accepted > most {
		ts.Fatalf("%d submissions were accepted in %v, and %d may be", f.accepted, lasted, most)
	}
}

// openWatches is `watches USER COUNT`: opens so many streams of changes on a few
// connections, and says how many continue, and why the others do not.
func openWatches(ts *testscript.TestScript, neg bool, args []string) {
	var count int
	if _, err := fmt.Sscan(strings.Join(args[min(1, len(args)):], " "), &count); neg || len(args) != 2 || err != nil {
		ts.Fatalf("usage: watches USER COUNT")
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	open, refused := 0, map[codes.Code]string{}
	var client pb.ControllerClient
	for i := range count {
		if i%500 == 0 {
			conn := rawConnection(ts, args[0])
			defer conn.Close()
			client = pb.NewControllerClient(conn)
		}
		stream, err := client.Follow(ctx, &pb.FollowRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if err == nil {
			open++
		} else {
			refused[status.Code(err)] = status.Convert(err).Message()
		}
	}
	fmt.Fprintf(ts.Stdout(), "%d open\n", open)
	for code, words := range refused {
		fmt.Fprintf(ts.Stdout(), "%v: %s\n", code, words)
	}
}

// rawConnection is one of a user's own making to the first controller.
func rawConnection(ts *testscript.TestScript, user string) *grpc.ClientConn {
	conn, err := grpc.NewClient(strings.Split(ts.Getenv("GLEANER_CONTROLLER"), ",")[0],
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dialAs(ts, user)))
	ts.Check(err)
	return conn
}
