package ctld

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/gleaner-hpc/gleaner/ctld/api"
	"github.com/gleaner-hpc/gleaner/proto/logs"
)

const description = `The controller keeps the queue, decides what runs where, and tells the nodes.
What it accepts is on disk before it answers; it may be killed at any time.

Examples:
   gctld
      a controller alone on its host, on /run/gleaner/gctld.sock
   gctld --data-dir /tmp/c1 --socket /tmp/c1.sock --log-level debug
      another one beside it, to try things
   gctld --listen 0.0.0.0:6817
      also reachable by nodes of other hosts, over mutual TLS
   gctld cert --node gpu01 --out ./gpu01
      the certificate for such a node: copy the directory there
   gctld --peer-listen c1.lab:6818
      one that other controllers can join
   gctld --join --certificates ./c2 --peer-listen c2.lab:6818
      one that joins it, on another host; then type on the cluster
      gcontrol peer add c2 c2.lab:6818

Settings may also be in a TOML file (--config): name, data_dir, socket,
listen, munge_socket, peer_listen, peer_advertise, join, certificates, election_timeout,
metrics_listen, client_timeout, fence_command, audit, audit_file, backup_dir, backup_every,
history_days, history_archive, history_database,
backup_keep, log_level, log_format. Partitions and everything else about the
cluster is policy: see "gcontrol apply --help".`

// Command is the command line of gctld.
func Command(version string) *cli.App {
	return &cli.App{
		Name:                 "gctld",
		Usage:                "the controller daemon of Gleaner",
		Description:          description,
		Version:              version,
		HideHelpCommand:      true,
		EnableBashCompletion: true,
		Flags: append(configFlags(),
			&cli.IntFlag{Name: "ready-fd", Usage: "write a line to this open descriptor `N` when ready", Value: -1},
		),
		Action: func(c *cli.Context) error { return run(c, version) },
		// The error says what is wrong; the whole help would only hide it.
		OnUsageError: usageError,
		Commands:     []*cli.Command{certCommand(), doctorCommand(version), recoverCommand()},
	}
}

func usageError(_ *cli.Context, err error, _ bool) error {
	return fmt.Errorf("%w: see --help", err)
}

func configFlags() []cli.Flag {
	defaults := DefaultConfig()
	return []cli.Flag{
		&cli.PathFlag{Name: "config", Usage: "read settings from `FILE` (TOML)"},
		&cli.PathFlag{Name: "data-dir", Usage: "keep log, snapshots and certificates in `DIR` (default: " + defaults.DataDir + ")"},
		&cli.PathFlag{Name: "socket", Usage: "listen on the unix socket `PATH` (default: " + defaults.Socket + ")"},
		&cli.StringFlag{Name: "listen", Usage: "listen on `HOST:PORT` too, over mutual TLS"},
		&cli.StringFlag{Name: "metrics-listen", Usage: "metrics for Prometheus at http://`HOST:PORT`/metrics (default: none)"},
		&cli.StringFlag{Name: "peer-listen", Usage: "listen on `HOST:PORT` for other controllers, over mutual TLS"},
		&cli.StringFlag{Name: "peer-advertise", Usage: "`HOST:PORT` that other controllers dial (default: that of --peer-listen)"},
		&cli.BoolFlag{Name: "join", Usage: "with an empty data directory, wait to be added to a cluster that runs: see gcontrol peer"},
		&cli.PathFlag{Name: "certificates", Usage: "take this controller's certificates from `DIR`, written by gctld cert --controller"},
		&cli.StringFlag{Name: "name", Usage: "`NAME` of this controller (default: the host's, kept in the data directory)"},
		&cli.StringFlag{Name: "log-format", Usage: "`FORMAT`: text or json (default: " + defaults.LogFormat + ")"},
		&cli.StringFlag{Name: "log-level", Usage: "`LEVEL`: debug, info, warn or error (default: " + defaults.LogLevel + ")"},
	}
}

// configOf reads the file, if one is named, and lets flags override it.
func configOf(c *cli.Context) (Config, error) {
	config := DefaultConfig()
	if path := c.Path("config"); path != "" {
		var err error
		if config, err = LoadConfig(path); err != nil {
			return config, err
		}
	}
	for flag, field := range map[string]*string{
		"data-dir": &config.DataDir, "socket": &config.Socket, "listen": &config.Listen,
		"metrics-listen": &config.MetricsListen,
		"name":           &config.Name, "log-level": &config.LogLevel, "log-format": &config.LogFormat,
		"certificates": &config.Certificates,
		"peer-listen":  &config.PeerListen, "peer-advertise": &config.PeerAdvertise,
	} {
		if c.IsSet(flag) {
			*field = c.String(flag)
		}
	}
	if c.IsSet("join") {
		config.Join = c.Bool("join")
	}
	return config, config.Check()
}

func run(c *cli.Context, version string) error {
	if c.Args().Present() {
		return fmt.Errorf("unknown command %q: see gctld --help", c.Args().First())
	}
	config, err := configOf(c)
	if err != nil {
		return err
	}
	level, err := config.Level()
	if err != nil {
		return err
	}
	log := logs.New(os.Stderr, logs.Options{Format: config.LogFormat, Level: level, Often: []string{api.MessageRefused}})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	server, err := Start(config, version, log)
	if err != nil {
		return err
	}
	go func() {
		for {
			select {
			case got := <-signals:
				if got == syscall.SIGHUP {
					server.audit.Reopen()
					continue
				}
				log.Info("stopping", "signal", got.String())
				server.Stop()
			case <-server.stopped:
			}
			return
		}
	}()
	go announce(server, c.Int("ready-fd"))
	return server.Wait()
}

// announce tells the parent process, through a descriptor, that the controller
// is ready.
func announce(server *Server, descriptor int) {
	select {
	case <-server.Ready():
	case <-server.stopped:
		return
	}
	if descriptor < 0 {
		return
	}
	file := os.NewFile(uintptr(descriptor), "ready-fd")
	if _, err := fmt.Fprintln(file, "ready"); err != nil {
		server.log.Warn("could not tell who started this controller that it is ready; see --ready-fd", "error", err)
	}
	_ = file.Close()
}
