package control

import (
	"bufio"
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// licenseRecord is a license in JSON, by Slurm's names.
type licenseRecord struct {
	Name     string `json:"LicenseName"`
	Total    uint64 `json:"Total"`
	Used     uint64 `json:"Used"`
	Free     uint64 `json:"Free"`
	Remote   bool   `json:"Remote"`
	Reserved uint64 `json:"Reserved"`
	// Of licenses that another cluster or a server counts; there are none.
	LastConsumed uint64 `json:"LastConsumed"`
	LastDeficit  uint64 `json:"LastDeficit"`
	LastUpdate   int64  `json:"LastUpdate"`
}

func showLicenses(c *controlRun, name string) error {
	listed, err := client.AskOne(c.inv.Context, c.client, c.client.ListLicenses, &pb.ListLicensesRequest{})
	if err != nil {
		return client.LoadError(c.inv, client.LoadLicenses, err)
	}
	licenses := listed.GetLicenses()
	if name != "" {
		licenses = slices.DeleteFunc(licenses, func(l *pb.LicenseUse) bool { return l.Name != name })
		if len(licenses) == 0 {
			fmt.Fprintf(c.inv.Stdout, "License %s not found\n", format.Printable(name))
			return option.Exit(1)
		}
	}
	records := make([]licenseRecord, 0, len(licenses))
	for _, l := range licenses {
		// There may be fewer by now than jobs have.
		records = append(records, licenseRecord{Name: l.Name, Total: l.Total, Used: l.Used, Free: l.Total - min(l.Used, l.Total)})
	}
	if c.json != show.JSONNone {
		return show.WriteJSON(c.inv, c.json, "licenses", records)
	}
	out := bufio.NewWriter(c.inv.Stdout)
	if len(records) == 0 {
		fmt.Fprintln(out, "No licenses are configured.")
	}
	separator := "\n    "
	if c.oneLine {
		separator = " "
	}
	for _, l := range records {
		fmt.Fprintf(out, "LicenseName=%s%sTotal=%d Used=%d Free=%d Reserved=0 Remote=no\n", format.Printable(l.Name), separator, l.Total, l.Used, l.Free)
	}
	return out.Flush()
}
