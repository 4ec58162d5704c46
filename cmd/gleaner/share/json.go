package share

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
)

// sharesRecord is the answer: Slurm has the list, and the sum of the shares, below one key.
type sharesRecord struct {
	Shares      []*shareRecord `json:"shares"`
	TotalShares uint64         `json:"total_shares"`
}

func writeJSON(inv *option.Invocation, s show.JSONShape, rows []*shareRow) error {
	all := sharesRecord{Shares: make([]*shareRecord, len(rows))}
	for i, row := range rows {
		all.Shares[i] = shareRecordOf(s, row)
		if !row.ShareParent {
			all.TotalShares += uint64(row.RawShares)
		}
	}
	if s == show.JSONOld {
		return show.WriteJSON(inv, s, "shares", all.Shares)
	}
	return show.WriteJSONObject(inv, s, "shares", all)
}

// shareRecord is an association as JSON, by the names of sshare --json.
type shareRecord struct {
	Name             string        `json:"name"`
	Account          string        `json:"account"`
	Parent           string        `json:"parent"`
	Partition        string        `json:"partition"`
	Type             []string      `json:"type"`
	Shares           show.Optional `json:"shares"`
	SharesNormalized show.Real     `json:"shares_normalized"`
	Usage            float64       `json:"usage"`
	UsageNormalized  show.Real     `json:"usage_normalized"`
	EffectiveUsage   float64       `json:"effective_usage"`
	FairShare        shareFactors  `json:"fairshare"`
	TRES             shareTRES     `json:"tres"`
}

type shareFactors struct {
	Factor show.Real `json:"factor"`
	Level  show.Real `json:"level"`
}

func shareRecordOf(s show.JSONShape, share *shareRow) *shareRecord {
	number := func(n *float64) show.Real { return show.Real{Shape: s, Number: n} }
	record := &shareRecord{
		Name: share.Account, Account: share.Account, Parent: share.Parent, Partition: share.Partition, Type: []string{},
		Shares: s.Count(uint64(share.RawShares)), SharesNormalized: number(&share.NormShares),
		Usage: show.Finite(share.RawUsage), UsageNormalized: number(&share.NormUsage), EffectiveUsage: show.Finite(share.EffectiveUsage),
		FairShare: shareFactors{Factor: number(share.FairShare), Level: number(share.LevelFs)}, TRES: shareTRESOf(s, share),
	}
	if share.ShareParent {
		record.Shares = show.Optional{Shape: s}
	}
	if share.User != "" {
		record.Name, record.Parent, record.Type = share.User, share.Account, []string{"USER"}
	}
	return record
}
