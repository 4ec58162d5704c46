package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/gleaner-hpc/gleaner/noded/doctor"
)

// doctorCommand is gdoctor's view of what only this program knows.
func doctorCommand(config cli.Flag) *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "say as JSON what this machine lacks to be a node; gdoctor reads it; use gdoctor yourself",
		Flags: []cli.Flag{config, &cli.BoolFlag{
			Name: "quick", Usage: "start no container",
		}},
		Action: examine,
	}
}

func examine(c *cli.Context) error {
	words := c.Args().Slice()
	if len(words) > 2 && words[0] == doctor.TryWord {
		return doctor.Try(words[1], words[2], words[3:])
	}
	if len(words) > 0 {
		return errors.New("doctor takes no arguments: see gdoctor --help")
	}
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start it for trials: %w", err)
	}
	report := doctor.Examine(c.Context, doctor.Options{ConfigPath: c.String("config"), Executable: executable, Quick: c.Bool("quick")})
	return json.NewEncoder(c.App.Writer).Encode(report)
}
