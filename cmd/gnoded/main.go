// Command gnoded is the node daemon, and the supervisor that it starts for
// each part of a job. See package noded.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	"github.com/gleaner-hpc/gleaner/noded"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"

	_ "github.com/gleaner-hpc/gleaner/checkpoint/store/s3"
	_ "github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/gangnet"
	"github.com/gleaner-hpc/gleaner/noded/gangnet/wire"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/shim"
	"github.com/gleaner-hpc/gleaner/proto/logs"
)

// is "gnoded init" inside containers

const description = `Offers this machine's CPUs, memory and GPUs to the controllers, and runs what
they order. It dials out; nothing listens, unless checkpoint.direct says so. When it is stopped, jobs continue; the
next start finds them. It must be root.

Keys of the configuration file (TOML; all may be left out):

   name           node name                      (the host name's first part)
   controllers    ["unix:///PATH", "HOST:PORT"]  (GLEANER_CONTROLLER, else
                                                 unix:///run/gleaner/gctld.sock)
   tls_dir        ca.pem, cert.pem, key.pem      (GLEANER_TLS_DIR; for HOST:PORT)
   state_dir      where parts of jobs live       (/var/lib/gleaner/noded)
   socket         for greclaim --local           (/run/gleaner/gnoded.sock)
   agent_socket   for the node's users, who need (/run/gleaner/agent.sock)
                  no certificate; "none": they
                  do not ask through the node
   min_free_disk  free there for a job to start  (64M)
   tmp_disk       that jobs may write there      (three quarters of what is free)
                  "unbounded" = one job may fill the disk
   def_tmp_per_cpu  of it for each CPU of a job without --tmp  (half of an even share)
   ginit          process 1 of containers        (beside this program)
   cpus           CPUs to offer                  (0: those that exist)
   memory         memory to offer, "64G"         (what exists, less a reserve)
   features       ["infiniband"]                 labels for --constraint
   address        how other nodes reach this one (name)
   step_ports     where tasks of steps may meet  (20000-28191; "none": they
                                                 are told no MASTER_PORT)
   cgroup_parent  where jobs' groups are made    (/gleaner/NAME)
   detect_gpus    ask the NVIDIA driver          (true unless [[gpu]] is there)
   log_level      debug, info, warn, error       (info)
   log_format     text, json                     (text)

   [container]
   bind = ["/data"]     host directories that every job sees; file systems
                        that the host has mounted are seen without
   hide = ["/srv/own"]  host directories that no job sees
   commands = ""        where gsubmit and the others are, if a login shell does
                        not find them: jobs have links to them in /usr/local/bin
   slurm = ""           where their Slurm names are, first in the PATH of jobs
                        (below the commands; "none": jobs have none)
   image_cache = ""     what container images may take (an eighth of the disk)
   goci = ""            the program that reads them (looked for beside gnoded)
   cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
                        say what an image needs of the NVIDIA driver, the last
                        first (without any: what lies beside its library)
   max_processes = 0    of one job, with threads, at most its share of the next
                        by its CPUs (0: that share)
   max_total_processes = 0
                        of all jobs (0: kernel's room less an eighth)

   [checkpoint]         with what jobs are saved, and where their images lie
   criu = ""            CRIU 4 or newer (looked for)
   store = ""           the node's own images (images, in state_dir); or
                        "s3://BUCKET/PREFIX", below which each node has its own
   endpoint = ""        of a bucket: https://HOST, or http://HOST:PORT (Amazon's)
   region = ""          of a bucket (the server is asked)
   credentials = ""     of a bucket: a file as the AWS command line has it
                        (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)
   keys = ""            with which images are encrypted: a file made by
                        age-keygen; all read, the last one writes (they are not)
   limit = "500G"       that they may take (what the disk has)
   timeout = "30m"      of a save for which nobody says how long it may take
   rate = "100M"        a second, to nodes that restore them (as fast as it goes)
   copy_rate = "100M"   a second, to nodes that keep copies of them (100M)
   direct = "10.0.0.5:7900-7907"
                        where a port is opened for another node, for one image
                        at a time, and only there; "dial": none here, but this
                        node goes to those of others (through a controller)

   [network]            of jobs with a network of their own (--network=private)
   way_out = "auto"     they reach the outside through this node, with its
                        address, where that works ("none": they do not)
   range = ""           of their addresses; those of other jobs and nodes may
                        be in it too (10.213.0.0/16, or another without routes)
   range6 = ""          the same for IPv6 (fd6c:9a3e:11f2:7e05::/64)
   wireguard = "auto"   what goes between the nodes of a job is encrypted by the
                        kernel, where it has WireGuard, and otherwise by a
                        process ("userspace": always by a process)

   [[checkpoint.shared]]  a store that several nodes have under this name
   name = "scratch"
   path = "/scratch/gleaner"
                        or "s3://BUCKET/PREFIX"; with endpoint, region,
                        credentials and keys as above

   [[gpu]]              GPUs named by hand, in place of detect_gpus
   id = "gpu0"
   model = "a100"
   path = "/dev/nvidia0"
   container_path = ""  where a job sees it (path, or its last name in /dev)
   memory = "80G"
   links = ["gpu1"]     ids with a fast link to it

Examples:

   gnoded                                    as root, with ` + noded.DefaultConfigPath + `
   gnoded --config /etc/gleaner/n1.toml
   gnoded stop-jobs --config /etc/gleaner/n1.toml`

// stopDeadline bounds stop-jobs unless --timeout says otherwise.
const stopDeadline = time.Minute

func main() {
	// A descriptor that somebody left open would be inherited by every
	// supervisor and end up in checkpoints of its job.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err := app().Run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "gnoded:", err)
		os.Exit(1)
	}
}

func app() *cli.App {
	config := &cli.StringFlag{
		Name: "config", Aliases: []string{"c"}, Usage: "configuration `FILE`", Value: noded.DefaultConfigPath,
	}
	return &cli.App{
		Name: "gnoded", Usage: "the node daemon of Gleaner", Version: noded.Version,
		Description: description, HideHelpCommand: true,
		Flags:  []cli.Flag{config},
		Action: daemon,
		Commands: []*cli.Command{
			{
				Name: "stop-jobs", Usage: "end all jobs on this node, whose daemon is stopped, and remove what they leave",
				Flags: []cli.Flag{config, &cli.DurationFlag{
					Name: "timeout", Usage: "give up after this `TIME`", Value: stopDeadline,
				}},
				Action: stopJobs,
			},
			doctorCommand(config),
			{Name: client.Word, Usage: "supervise the allocation in DIR", ArgsUsage: "DIR", Hidden: true, Action: supervise},
			{Name: client.FitsWord, Usage: "see whether the allocation in DIR could resume here", ArgsUsage: "DIR", Hidden: true, Action: func(c *cli.Context) error {
				return shim.FitsMain(c.Args().First(), os.Stdin, c.App.Writer)
			}},
			{Name: gangnet.Word, Usage: "carry the network between the nodes of a job for the supervisor of the allocation in DIR", ArgsUsage: "DIR", Hidden: true, Action: func(c *cli.Context) error {
				return wire.Main(os.Stdin, c.App.Writer, logs.New(os.Stderr, logs.Options{}))
			}},
			{Name: cuda.Word, Usage: "call the CUDA driver for a supervisor", Hidden: true, Action: func(*cli.Context) error { return cuda.Main() }},
			{Name: gpu.FactsWord, Usage: "ask the NVIDIA driver about GPUs for a supervisor", ArgsUsage: "ID...", Hidden: true, Action: func(c *cli.Context) error {
				return gpu.FactsMain(c.Args().Slice(), c.App.Writer)
			}},
		},
	}
}

func daemon(c *cli.Context) error {
	if c.NArg() > 0 {
		return fmt.Errorf("unknown command %q: see gnoded --help", c.Args().First())
	}
	config, log, err := load(c)
	if err != nil {
		return err
	}
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start supervisors: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	return noded.Run(ctx, config, executable, log)
}

func stopJobs(c *cli.Context) error {
	config, log, err := load(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Duration("timeout"))
	defer cancel()
	return noded.StopJobs(ctx, config, log)
}

func supervise(c *cli.Context) error {
	if c.NArg() != 1 {
		return errors.New("shim takes the directory of one part: it is started by gnoded, not by hand")
	}
	return shim.Main(c.Args().First())
}

// load reads the configuration and makes the log that it asks for.
func load(c *cli.Context) (noded.Config, *slog.Logger, error) {
	config, err := noded.LoadConfig(c.String("config"))
	if err != nil {
		return config, nil, err
	}
	return config, logs.New(os.Stderr, logs.Options{Format: config.LogFormat, Level: config.LogLevel}), nil
}
