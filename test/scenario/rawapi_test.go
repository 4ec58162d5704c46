package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/gleaner-hpc/gleaner/proto/gleaner/v1" // registers the messages
)

func init() { commands["rawapi"] = rawAPI }

// rawAPILimit ends a call; a stream that never ends by itself is given up with
// what came until then.
const rawAPILimit = 20 * time.Second

// rawAPI is `[!] rawapi USER METHOD [JSON] [KEY=VALUE…]`: calls a method of the
// controller past the commands, with metadata, as whoever wrote a client of
// their own would. Each answer is a line of JSON on stdout.
func rawAPI(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: rawapi USER METHOD [JSON] [KEY=VALUE...]")
	}
	request := "{}"
	if len(args) > 2 {
		request = args[2]
	}
	ctx, cancel := context.WithTimeout(context.Background(), rawAPILimit)
	defer cancel()
	for _, pair := range args[min(3, len(args)):] {
		key, value, _ := strings.Cut(pair, "=")
		ctx = metadata.AppendToOutgoingContext(ctx, key, value)
	}
	conn, err := grpc.NewClient(strings.Split(ts.Getenv("GLEANER_CONTROLLER"), ",")[0],
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dialAs(ts, args[0])))
	ts.Check(err)
	defer conn.Close()
	err = callRaw(ctx, conn, args[1], request, ts.Stdout())
	if err != nil {
		fmt.Fprintf(ts.Stderr(), "%v: %s\n", status.Code(err), status.Convert(err).Message())
	}
	if (err != nil) != neg {
		ts.Fatalf("%s %s as %s: %v", args[1], request, args[0], err)
	}
}

// callRaw calls a method by its name, and writes each answer as a line.
func callRaw(ctx context.Context, conn *grpc.ClientConn, method, text string, out io.Writer) error {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("gleaner.v1.Controller." + method))
	if err != nil {
		return fmt.Errorf("method %s: %w", method, err)
	}
	about := found.(protoreflect.MethodDescriptor)
	input, inputErr := protoregistry.GlobalTypes.FindMessageByName(about.Input().FullName())
	output, outputErr := protoregistry.GlobalTypes.FindMessageByName(about.Output().FullName())
	request := input.New().Interface()
	if err := errors.Join(inputErr, outputErr, protojson.Unmarshal([]byte(text), request)); err != nil {
		return err
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: about.IsStreamingClient()}, "/gleaner.v1.Controller/"+method)
	if err != nil {
		return err
	}
	if err := errors.Join(stream.SendMsg(request), stream.CloseSend()); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for {
		answer := output.New().Interface()
		err := stream.RecvMsg(answer)
		if errors.Is(err, io.EOF) || about.IsStreamingServer() && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		line, err := protojson.Marshal(answer)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", strings.ReplaceAll(string(line), `": `, `":`)) // which protojson varies on purpose
	}
}

// dialAs connects as one of the users: the kernel tells the controller who
// connects by the thread that did.
func dialAs(ts *testscript.TestScript, name string) func(context.Context, string) (net.Conn, error) {
	uid := 0
	for _, u := range users {
		if u.name == name {
			uid = u.id
		}
	}
	if uid == 0 && name != "root" {
		ts.Fatalf("there is no user %s", name)
	}
	return func(_ context.Context, address string) (net.Conn, error) {
		type dialled struct {
			conn net.Conn
			err  error
		}
		done := make(chan dialled, 1)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
			if uid != 0 {
				if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
					done <- dialled{nil, errno}
					return
				}
			}
			conn, err := net.Dial("unix", strings.TrimPrefix(address, "unix:"))
			done <- dialled{conn, err}
		}()
		got := <-done
		return got.conn, got.err
	}
}
