package main

import (
	"bufio"
	"context"
	"fmt"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func showConfig(c *controlRun, _ string) error {
	var config *pb.ShowConfigResponse
	var peer *pb.PingResponse
	err := c.client.ask(c.inv.Context, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, silenceTime)
		defer cancel()
		var err error
		if config, err = c.client.ShowConfig(ctx, &pb.ShowConfigRequest{}); err != nil {
			return err
		}
		peer, err = c.client.Ping(ctx, &pb.PingRequest{})
		return err
	})
	if err != nil {
		return loadError(c.inv, loadConfig, err)
	}
	if c.json != jsonNone {
		entries := map[string]string{}
		for _, entry := range config.Entries {
			entries[entry.Key] = entry.Value
		}
		return writeJSON(c.inv, c.json, "config", []map[string]string{entries})
	}
	out := bufio.NewWriter(c.inv.Stdout)
	fmt.Fprintf(out, "Configuration data as of %s\n", c.view.stamp(c.view.nowMS, ""))
	for _, entry := range config.Entries {
		fmt.Fprintf(out, "%-23s = %s\n", format.Printable(entry.Key), format.Printable(entry.Value))
	}
	fmt.Fprintf(out, "\nSlurmctld(primary) at %s is UP\n", format.Printable(peer.GetPeer()))
	return out.Flush()
}
