package main

import (
	"encoding/json"
	"math"
)

// shareRecord is an association as JSON, by the names of sshare --json.
type shareRecord struct {
	Name             string       `json:"name"`
	Account          string       `json:"account"`
	Parent           string       `json:"parent"`
	Partition        string       `json:"partition"`
	Type             []string     `json:"type"`
	Shares           optional     `json:"shares"`
	SharesNormalized real         `json:"shares_normalized"`
	Usage            float64      `json:"usage"`
	UsageNormalized  real         `json:"usage_normalized"`
	EffectiveUsage   float64      `json:"effective_usage"`
	FairShare        shareFactors `json:"fairshare"`
	TRES             shareTRES    `json:"tres"`
}

type shareFactors struct {
	Factor real `json:"factor"`
	Level  real `json:"level"`
}

// real is a number that may be unset or infinite, in the shape of optional.
type real struct {
	shape  jsonShape
	number *float64
}

// MarshalJSON writes the number in its shape.
func (r real) MarshalJSON() ([]byte, error) {
	set := r.number != nil && !math.IsNaN(*r.number)
	infinite := set && math.IsInf(*r.number, 0)
	number := 0.0
	if set && !infinite {
		number = *r.number
	}
	if r.shape == jsonOld {
		if !set || infinite {
			return []byte("null"), nil
		}
		return json.Marshal(number)
	}
	return json.Marshal(struct {
		Set      bool    `json:"set"`
		Infinite bool    `json:"infinite"`
		Number   float64 `json:"number"`
	}{set && !infinite, infinite, number})
}

// finite is 0 for what JSON cannot write.
func finite(n float64) float64 {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return 0
	}
	return n
}

func (s jsonShape) share(share *shareRow) *shareRecord {
	number := func(n *float64) real { return real{shape: s, number: n} }
	record := &shareRecord{
		Name: share.Account, Account: share.Account, Parent: share.Parent, Partition: share.Partition, Type: []string{},
		Shares: s.count(uint64(share.RawShares)), SharesNormalized: number(&share.NormShares),
		Usage: finite(share.RawUsage), UsageNormalized: number(&share.NormUsage), EffectiveUsage: finite(share.EffectiveUsage),
		FairShare: shareFactors{Factor: number(share.FairShare), Level: number(share.LevelFs)}, TRES: s.shareTRES(share),
	}
	if share.ShareParent {
		record.Shares = optional{shape: s}
	}
	if share.User != "" {
		record.Name, record.Parent, record.Type = share.User, share.Account, []string{"USER"}
	}
	return record
}
