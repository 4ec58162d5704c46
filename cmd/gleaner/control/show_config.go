package control

import (
	"bufio"
	"fmt"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func showConfig(c *controlRun, word string) error {
	if word != "" {
		return c.tooMany("show")
	}
	config, err := client.AskOne(c.inv.Context, c.client, c.client.ShowConfig, &pb.ShowConfigRequest{})
	if err != nil {
		return client.LoadError(c.inv, client.LoadConfig, err)
	}
	peer, err := client.AskOne(c.inv.Context, c.client, c.client.Ping, &pb.PingRequest{})
	if err != nil {
		return client.LoadError(c.inv, client.LoadConfig, err)
	}
	if c.json != show.JSONNone {
		entries := map[string]string{}
		for _, entry := range config.Entries {
			entries[entry.Key] = entry.Value
		}
		return show.WriteJSON(c.inv, c.json, "config", []map[string]string{entries})
	}
	out := bufio.NewWriter(c.inv.Stdout)
	fmt.Fprintf(out, "Configuration data as of %s\n", c.view.Stamp(c.view.NowMS, ""))
	for _, entry := range config.Entries {
		fmt.Fprintf(out, "%-23s = %s\n", format.Printable(entry.Key), format.Printable(entry.Value))
	}
	fmt.Fprintf(out, "\nSlurmctld(primary) at %s is UP\n", format.Printable(peer.GetPeer()))
	return out.Flush()
}
