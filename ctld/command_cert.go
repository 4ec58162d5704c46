package ctld

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/urfave/cli/v2"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// certLimit bounds what gctld cert asks the controller.
const certLimit = 20 * time.Second

// recordedLimit is how long it waits until a running controller accepts what
// was just issued.
const recordedLimit = 5 * time.Second

func certCommand() *cli.Command {
	return &cli.Command{
		Name:  "cert",
		Usage: "issue, list and revoke certificates of nodes, login hosts, users and controllers",
		Description: `Writes ca.pem, cert.pem and key.pem. Copy the directory to the other host,
readable by its holder only, and set GLEANER_TLS_DIR to it there; a controller
is started with --certificates DIR. Run it on the host of the controller that
began the cluster, as root or who runs gctld; gctld need not be stopped.

A node's certificate admits a node of that name: no other joins. That of a login
host (--host) is for its agent (gleaner agent), which vouches for the users there as
far as [[login]] in cluster.toml allows. Certificates are renewed by themselves: those of nodes and controllers by the daemons, those
of users by the commands that they type. --revoke makes one count for nothing at
once, on all controllers; a node is not admitted any more then.

Examples:
   gctld cert --node gpu01 --out ./gpu01
   gctld cert --host login1 --out ./login1
   gctld cert --user ann --out ./ann
   gctld cert --controller c2 --out ./c2
   gctld cert --list
   gctld cert --revoke node:gpu01`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "node", Usage: "`NAME` of the node"},
			&cli.StringFlag{Name: "host", Usage: "`NAME` of the login host"},
			&cli.StringFlag{Name: "user", Usage: "login `NAME` of the user"},
			&cli.StringFlag{Name: "controller", Usage: "`NAME` of the controller"},
			&cli.PathFlag{Name: "out", Usage: "`DIR` to write to"},
			&cli.BoolFlag{Name: "list", Usage: "what was issued, to whom, until when, and what was revoked"},
			&cli.StringSliceFlag{Name: "revoke", Usage: "revoke the certificate with a serial number, or all of a holder, by `NAME`, KIND:NAME or SERIAL"},
			&cli.PathFlag{Name: "config", Usage: "read settings of gctld from `FILE` (TOML)"},
			&cli.PathFlag{Name: "data-dir", Usage: "the controller's `DIR` (default: " + DefaultConfig().DataDir + ")"},
			&cli.PathFlag{Name: "socket", Usage: "the controller's socket `PATH` (default: " + DefaultConfig().Socket + ")"},
		},
		Action:       runCert,
		OnUsageError: usageError,
	}
}

var errOneHolder = errors.New("name one of --node, --host, --user and --controller, or give --list or --revoke")

func runCert(c *cli.Context) error {
	config, err := configOf(c)
	if err != nil {
		return err
	}
	kind, name, err := holderOf(c)
	switch {
	case err != nil:
		return err
	case c.Args().Present():
		return fmt.Errorf("%q: gctld cert takes options only, see --help", c.Args().First())
	case name != "" && (c.Bool("list") || c.IsSet("revoke")) || c.Bool("list") && c.IsSet("revoke"):
		return errOneHolder
	case c.Bool("list"):
		return listCertificates(c, &config)
	case c.IsSet("revoke"):
		return revokeCertificates(c, &config)
	case name == "":
		return errOneHolder
	case c.Path("out") == "":
		return errors.New("say with --out DIR where to write the certificate")
	}
	return issueCertificate(c, &config, kind, name)
}

// holderOf is the holder of the certificate to be issued; no name = nobody.
func holderOf(c *cli.Context) (kind pki.Kind, name string, err error) {
	for _, of := range []pki.Kind{pki.Node, pki.Host, pki.User, pki.Controller} {
		if !c.IsSet(string(of)) {
			continue
		}
		if name != "" || c.String(string(of)) == "" {
			return "", "", errOneHolder
		}
		kind, name = of, c.String(string(of))
	}
	return kind, name, nil
}

func issueCertificate(c *cli.Context, config *Config, kind pki.Kind, name string) error {
	if kind == pki.User {
		if _, err := user.Lookup(name); err != nil {
			return fmt.Errorf("there is no user %q on this host: the controllers ask its name service who somebody is; look at the spelling (getent passwd %s)", name, name)
		}
	}
	authority, err := pki.Open(PKIDir(config.DataDir))
	if err != nil {
		return err
	}
	err = authority.WriteBundle(kind, name, c.Path("out"))
	if err := errors.Join(err, auditCertificate(config, string(kind)+" "+name, c.Path("out"), err)); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "wrote ca.pem, cert.pem and key.pem for %s %s to %s\n", kind, name, strings.TrimSuffix(c.Path("out"), "/"))
	if kind == pki.Node || kind == pki.Host {
		awaitRecorded(c.Context, config, kind, name)
	}
	return nil
}

// awaitRecorded returns when the controllers admit a node or a login host. If the
// controller here does not run, it admits them when it is started.
func awaitRecorded(ctx context.Context, config *Config, kind pki.Kind, name string) {
	ctx, cancel := context.WithTimeout(ctx, recordedLimit)
	defer cancel()
	for ctx.Err() == nil {
		list, err := certificatesOf(ctx, config)
		if err != nil || slices.ContainsFunc(list, func(c *pb.Certificate) bool {
			return c.GetKind() == string(kind) && c.GetName() == name && c.GetRevokedMs() == 0 && time.Since(time.UnixMilli(c.GetFromMs())) < time.Hour
		}) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// certificatesOf are the records of a controller that runs here.
func certificatesOf(ctx context.Context, config *Config) (list []*pb.Certificate, err error) {
	err = callHere(ctx, config, func(ctx context.Context, client pb.ControllerClient) error {
		answer, err := client.ListCertificates(ctx, &pb.ListCertificatesRequest{})
		list = answer.GetCertificates()
		return err
	})
	return list, err
}

// callHere calls the controller that runs on this host.
func callHere(ctx context.Context, config *Config, call func(context.Context, pb.ControllerClient) error) error {
	conn, err := dial.Dial([]string{"unix://" + config.Socket}, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, certLimit)
	defer cancel()
	if err := call(ctx, pb.NewControllerClient(conn)); err != nil {
		return errors.New(status.Convert(err).Message())
	}
	return nil
}

func listCertificates(c *cli.Context, config *Config) error {
	list, err := certificatesOf(c.Context, config)
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b *pb.Certificate) int {
		return strings.Compare(a.GetKind()+":"+a.GetName(), b.GetKind()+":"+b.GetName())
	})
	out := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "HOLDER\tFROM\tUNTIL\tSTATE\tSERIAL")
	for _, one := range list {
		state := "good"
		if one.GetRevokedMs() != 0 {
			state = "revoked by " + one.GetRevokedBy() + " on " + onDay(one.GetRevokedMs())
		}
		fmt.Fprintf(out, "%s:%s\t%s\t%s\t%s\t%s\n", one.GetKind(), one.GetName(), onDay(one.GetFromMs()), onDay(one.GetUntilMs()), state, one.GetSerial())
	}
	return out.Flush()
}

func onDay(ms int64) string { return time.UnixMilli(ms).Format(time.DateOnly) }

func revokeCertificates(c *cli.Context, config *Config) error {
	names := c.StringSlice("revoke")
	err := callHere(c.Context, config, func(ctx context.Context, client pb.ControllerClient) error {
		_, err := client.RevokeCertificates(ctx, &pb.RevokeCertificatesRequest{RequestId: uuid.NewString(), Names: names})
		return err
	})
	if err == nil {
		fmt.Fprintf(c.App.Writer, "revoked %s\n", strings.Join(names, ", "))
	}
	return err
}
