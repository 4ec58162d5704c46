// Package agent is the daemon of a login host: its users ask the controllers through it,
// with one certificate for the whole host.
//
// It reads /etc/gleaner/agent.toml, serves a unix socket until it is ended, and renews the
// certificate. Package proto/login is what it does; nodes have the same in gnoded.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	"github.com/gleaner-hpc/gleaner/proto/login"
	"github.com/gleaner-hpc/gleaner/proto/logs"
	"github.com/gleaner-hpc/gleaner/proto/tomlfile"
)

const configPath = "/etc/gleaner/agent.toml"

// config is agent.toml.
type config struct {
	Controllers []string `toml:"controllers"`
	TLSDir      string   `toml:"tls_dir"`
	Socket      string   `toml:"socket"`
	LogLevel    string   `toml:"log_level"`
	LogFormat   string   `toml:"log_format"`
}

// Command is the table of gleaner agent.
func Command() *option.Command {
	return &option.Command{
		Name: "agent", Summary: "let the users of a login host ask the controllers, with one certificate for the host", Usage: "[options]",
		Description: []string{
			"gleaner agent runs on a host on which users type commands and jobs do not run. It listens on " + login.DefaultSocket + ", where all commands look by themselves. The kernel tells it who calls; it shows the controllers the host's certificate and says who that is. So no user needs a certificate or a variable.",
			"On the host of the controller that began the cluster, gctld cert --host NAME writes the certificate. A [[login]] in cluster.toml names the host and the users for whom it may vouch: by the numbers of their accounts, and their names. It vouches for root, administrators and operators only where these are named. gctld cert --revoke host:NAME ends that at once.",
			"Keys of the configuration (TOML): controllers = [\"c1.lab:6817\"], which is needed; tls_dir = \"/etc/gleaner/tls\"; socket; log_level; log_format. On nodes gnoded does the same: see agent_socket there.",
		},
		Options: []option.Option{
			{Long: "config", Short: 'c', Argument: "file", Default: configPath, Help: "read the configuration from this file"},
		},
		Run: runAgent,
		Examples: []option.Example{
			{Text: "Its certificate, on the controller's host", Command: "gctld cert --host login1 --out ./login1"},
			{Text: "As a service, on the login host", Command: "systemctl enable --now gleaner-agent"},
		},
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "it was ended"}, {Status: "1", Help: "the configuration, the certificate or the socket cannot be used"}},
		SeeAlso:    []string{"gdoctor"},
	}
}

func runAgent(inv *option.Invocation) error {
	if len(inv.Operands) > 0 {
		return inv.Fail("gleaner agent takes options only: what is %q?", inv.Operands[0])
	}
	path := inv.Text("config")
	if !inv.Given("config") {
		path = configPath
	}
	settings, level, err := load(path)
	if err != nil {
		return option.Fail(1, "%w", err)
	}
	log := logs.New(os.Stderr, logs.Options{Format: settings.LogFormat, Level: level})
	ctx, stop := signal.NotifyContext(inv.Context, syscall.SIGTERM)
	defer stop()
	return serve(ctx, settings, log)
}

func serve(ctx context.Context, settings config, log *slog.Logger) error {
	// What cannot work is said now, and not to the first user.
	connection, err := dial.Dial(settings.Controllers, settings.TLSDir)
	if err != nil {
		return option.Fail(1, "%w", err)
	}
	_ = connection.Close()
	listener, err := dial.ListenUnix(settings.Socket, "socket in the configuration of gleaner agent")
	if err != nil {
		return option.Fail(1, "%w", err)
	}
	served := &login.Agent{Controllers: settings.Controllers, TLSDir: settings.TLSDir, Log: log}
	renewing, cancel := context.WithCancel(ctx)
	defer cancel()
	go served.Renew(renewing)
	log.Info("ready", "socket", settings.Socket, "controllers", strings.Join(settings.Controllers, ","))
	if err := served.Serve(ctx, listener); err != nil {
		return option.Fail(1, "%w", err)
	}
	log.Info("ended")
	return nil
}

// load reads and checks the configuration.
func load(path string) (config, slog.Level, error) {
	settings := config{TLSDir: "/etc/gleaner/tls", Socket: login.DefaultSocket, LogLevel: "info", LogFormat: logs.Text}
	var level slog.Level
	text, err := tomlfile.Read(path, tomlfile.MaxBytes)
	if err != nil {
		return settings, level, err
	}
	if err := tomlfile.Decode(text, &settings); err != nil {
		return settings, level, fmt.Errorf("%s%w", path, err)
	}
	if err := level.UnmarshalText([]byte(settings.LogLevel)); err != nil {
		return settings, level, fmt.Errorf("%s: log_level = %.80q must be debug, info, warn or error", path, settings.LogLevel)
	}
	if err := errors.Join(logs.CheckFormat(settings.LogFormat), settings.check()); err != nil {
		return settings, level, fmt.Errorf("%s: %w", path, err)
	}
	return settings, level, nil
}

func (c *config) check() error {
	switch {
	case len(c.Controllers) == 0:
		return errors.New(`controllers is not set: say where they are, as in controllers = ["c1.lab:6817"]`)
	case len(dial.Remote(c.Controllers)) < len(c.Controllers):
		return errors.New("controllers: an agent asks over the network, as HOST:PORT; on the host of a controller users need no agent")
	case !filepath.IsAbs(c.TLSDir):
		return fmt.Errorf("tls_dir = %.80q must be an absolute path", c.TLSDir)
	case !filepath.IsAbs(c.Socket):
		return fmt.Errorf("socket = %.80q must be an absolute path", c.Socket)
	}
	return nil
}
