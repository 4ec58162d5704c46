package main

import (
	"bufio"
	"fmt"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func showConfig(c *controlRun, word string) error {
	if word != "" {
		return c.tooMany("show")
	}
	config, err := askOne(c.inv.Context, c.client, c.client.ShowConfig, &pb.ShowConfigRequest{})
	if err != nil {
		return loadError(c.inv, loadConfig, err)
	}
	peer, err := askOne(c.inv.Context, c.client, c.client.Ping, &pb.PingRequest{})
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
