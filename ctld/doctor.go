package ctld

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/gleaner-hpc/gleaner/proto/finding"
	"github.com/gleaner-hpc/gleaner/proto/munge"
)

// doctorCommand is gdoctor's view of what only this program knows.
func doctorCommand(version string) *cli.Command {
	return &cli.Command{
		Name:         "doctor",
		Usage:        "say as JSON what this host lacks to be a controller; gdoctor reads it; use gdoctor yourself",
		Flags:        configFlags(),
		OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return errors.New("doctor takes no arguments: see gdoctor --help")
			}
			return json.NewEncoder(c.App.Writer).Encode(examine(c, version))
		},
	}
}

// examine looks at the configuration and the data directory, and changes
// nothing. It reports a configuration that cannot be used, and then examines
// the host with the defaults.
func examine(c *cli.Context, version string) finding.Report {
	const name = "configuration"
	path := c.Path("config")
	config, err := configOf(c)
	var found []finding.Finding
	switch {
	case err == nil && path == "":
		found = append(found, finding.Good(name, "no file: all is default"))
	case err == nil:
		found = append(found, finding.Good(name, path))
	case errors.Is(err, fs.ErrPermission):
		found = append(found, finding.Unseen(name, err.Error()+"; the rest is examined with the defaults"))
		config = DefaultConfig()
	default:
		found = append(found, finding.Bad(name, err.Error(), "gctld does not start; the rest is examined with the defaults",
			"correct it; gctld --help lists every key"))
		config = DefaultConfig()
	}
	host := finding.Host{
		Role: finding.Controller, Name: config.Name, Version: version, Config: path,
		Directory: config.DataDir, Controllers: []string{"unix://" + config.Socket},
		TLSDir: config.Certificates, PKIDir: PKIDir(config.DataDir), Listen: config.Listen, PeerListen: config.PeerListen,
	}
	if name, _, err := peerName(&config); err == nil {
		host.Name = name
	}
	found = append(found, examineDataDir(&config))
	if config.MungeSocket != "" {
		found = append(found, examineMunge(c.Context, config.MungeSocket))
	}
	return finding.Report{Host: host, Findings: found}
}

// examineMunge has munged decode what it made.
func examineMunge(ctx context.Context, socket string) finding.Finding {
	const name = "munge"
	if err := munge.Try(ctx, socket); err != nil {
		return finding.Bad(name, err.Error(), "who has no certificate cannot ask this controller", "systemctl status munge; munge_socket in gctld.toml must be its socket, which also who runs gctld may open")
	}
	return finding.Good(name, "munged answers at "+socket)
}

// examineDataDir reports whether the controller would take its data directory.
func examineDataDir(config *Config) finding.Finding {
	const name = "data directory"
	dir := config.DataDir
	_, err := os.Stat(dir)
	if err == nil {
		err = refuseDataDir(dir)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return finding.Good(name, dir+" is not there yet: gctld makes it at its first start")
	case err != nil && os.Geteuid() != 0:
		return finding.Unseen(name, fmt.Sprintf("only root, or who runs gctld, can look: %v", err))
	case err != nil:
		return finding.Bad(name, err.Error(), "gctld does not start", "follow the message")
	}
	if _, _, err := peerName(config); err != nil {
		return finding.Bad(name, err.Error(), "gctld does not start", "follow the message")
	}
	_, nameErr := os.Stat(filepath.Join(dir, nameFile))
	_, logErr := os.Stat(filepath.Join(dir, "raft", "raft.db"))
	if nameErr == nil && errors.Is(logErr, fs.ErrNotExist) {
		return finding.Bad(name, dir+" was used by a controller before, and its log raft/raft.db is missing",
			"gctld does not start: it would begin an empty cluster", "put back a copy of the whole directory")
	}
	if errors.Is(nameErr, fs.ErrNotExist) {
		return finding.Good(name, dir+" is empty: gctld begins a new cluster, or joins one")
	}
	return finding.Good(name, dir+" holds a log")
}
