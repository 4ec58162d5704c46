package show

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // a user's machine may have no zones of its own

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file shows on what terms nodes are lent.

// unlimited is the word for no limit.
const unlimited = "unlimited"

// DefaultLending are the terms of a node whose owner has set none.
func DefaultLending() *pb.Lending {
	return &pb.Lending{
		NoticeMs: 60_000, Unbounded: true, Hours: spec.Always, GpuPercent: 100, ParkedMemoryBytes: noLimit, GuestMemoryBytes: noLimit, GuestTmpBytes: noLimit,
		MaxUnsavedS: spec.Unlimited, QuietS: 900,
	}
}

const noLimit = 1<<64 - 1

// LendingRow is a node in the table of glend.
type LendingRow struct {
	Node  *pb.Node
	Terms *pb.Lending
	View  *View
	lent  string
	until string
}

// LendingRowOf is the row of a node at a time.
func LendingRowOf(node *pb.Node, view *View, now time.Time) *LendingRow {
	row := &LendingRow{Node: node, Terms: node.GetLending(), View: view}
	if row.Terms == nil {
		row.Terms = DefaultLending()
	}
	lent, untilMS := lentNow(node, row.Terms, now)
	row.lent, row.until = lent, view.Stamp(untilMS, "-")
	return row
}

// lentNow says whether a node is lent, and until when that is so; 0 = nobody knows.
func lentNow(node *pb.Node, terms *pb.Lending, now time.Time) (word string, untilMS int64) {
	if reclaim := node.GetReclaim(); reclaim != nil {
		word = "no"
		if len(reclaim.GetDevices()) > 0 {
			word = "partly"
		}
		return word, reclaim.GetUntilMs()
	}
	week, err := spec.ParseWeek(terms.GetHours())
	zone, zoneErr := time.LoadLocation(terms.GetTimeZone())
	if err != nil || zoneErr != nil {
		return "unknown", 0
	}
	open, changes := week.At(now, zone)
	if !changes.IsZero() {
		untilMS = changes.UnixMilli()
	}
	if !open { // somebody has released it, or the controllers are about to reclaim it
		return "yes", untilNext(week, changes, zone)
	}
	return "yes", untilMS
}

// untilNext is when the hours that begin at a moment end; 0 = never.
func untilNext(week spec.Week, begin time.Time, zone *time.Location) int64 {
	if begin.IsZero() {
		return 0
	}
	_, end := week.At(begin, zone)
	return end.UnixMilli()
}

// LendingTable is what can be shown of terms.
var LendingTable = format.NewTable([]format.Field[*LendingRow]{
	lendingField('N', "NODE", func(r *LendingRow) string { return r.Node.GetName() }),
	lendingField('o', "OWNER", func(r *LendingRow) string { return orDash(r.Node.GetOwnerAccount()) }),
	lendingField('l', "LENT", func(r *LendingRow) string { return r.lent }),
	lendingField('u', "UNTIL", func(r *LendingRow) string { return r.until }),
	lendingField('n', "NOTICE", func(r *LendingRow) string { return PromiseText(int64(r.Terms.GetNoticeMs())) }),
	lendingField('g', "GPUS", func(r *LendingRow) string { return fmt.Sprintf("%d%%", r.Terms.GetGpuPercent()) }),
	lendingField('a', "ACCOUNTS", func(r *LendingRow) string { return accountsText(r.Terms) }),
	lendingField('I', "IMAGES", func(r *LendingRow) string { return imageRulesWord(r.Terms.GetImageRules()) }),
	lendingField('m', "MEMORY", func(r *LendingRow) string { return boundText(r.Terms.GetGuestMemoryBytes()) }),
	lendingField('t', "TMP", func(r *LendingRow) string { return boundText(r.Terms.GetGuestTmpBytes()) }),
	lendingField('w', "NETWORK", func(r *LendingRow) string { return rateText(r.Terms.GetGuestNetworkBytes()) }),
	lendingField('i', "IO", func(r *LendingRow) string { return rateText(r.Terms.GetGuestIoBytes()) }),
	lendingField('W', "POWER", func(r *LendingRow) string { return powerText(r.Terms.GetGuestPowerWatts()) }),
	lendingField('p', "PARKED", func(r *LendingRow) string { return boundText(r.Terms.GetParkedMemoryBytes()) }),
	lendingField('x', "MAX-TIME", func(r *LendingRow) string { return maxTimeText(r.Terms.GetMaxUnsavedS()) }),
	lendingField('k', "KILL", func(r *LendingRow) string { return strings.ToLower(yesNo(r.Terms.GetUnbounded())) }),
	lendingField('h', "HOURS", func(r *LendingRow) string { return hoursText(r.Terms) }),
})

func lendingField(letter byte, header string, value func(*LendingRow) string) format.Field[*LendingRow] {
	return format.Field[*LendingRow]{Letter: letter, Names: []string{header}, Header: header, Value: value}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func accountsText(terms *pb.Lending) string {
	if len(terms.GetAccounts()) == 0 {
		return "all"
	}
	return strings.Join(terms.GetAccounts(), ",")
}

// imageRulesWord says whether guests may have all container images that the site allows.
func imageRulesWord(rules *pb.ImageRules) string {
	if rules == nil {
		return "all"
	}
	return "rules"
}

// imageRulesText are the rules themselves, but for the keys.
func imageRulesText(rules *pb.ImageRules) string {
	if rules == nil {
		return "all"
	}
	var parts []string
	add := func(word string, list []string) {
		if len(list) > 0 {
			parts = append(parts, word+":"+strings.Join(list, ","))
		}
	}
	add("allow", rules.GetAllow())
	add("deny", rules.GetDeny())
	add("barred", rules.GetBarred())
	for _, signed := range rules.GetSigned() {
		add("signed", signed.GetImages())
	}
	return strings.Join(parts, ";")
}

// ImageRulesJSON are rules of container images. The keys are public.
type ImageRulesJSON struct {
	Allow  []string           `json:"allow"` // empty = all
	Deny   []string           `json:"deny"`
	Barred []string           `json:"barred"`
	Signed []SignedImagesJSON `json:"signed"`
}

// SignedImagesJSON must be signed by one of the keys or identities.
type SignedImagesJSON struct {
	Images     []string            `json:"images"`
	Keys       []string            `json:"keys"`
	Identities []ImageIdentityJSON `json:"identities"`
}

// ImageIdentityJSON is who must have made a keyless signature, in the words of cosign verify.
type ImageIdentityJSON struct {
	CertificateIdentity         string `json:"certificate_identity"`
	CertificateIdentityRegexp   string `json:"certificate_identity_regexp"`
	CertificateOidcIssuer       string `json:"certificate_oidc_issuer"`
	CertificateOidcIssuerRegexp string `json:"certificate_oidc_issuer_regexp"`
	PredicateType               string `json:"predicate_type"` // of an attestation; empty = a signature
}

func signedImagesJSON(signed *pb.SignedImages) SignedImagesJSON {
	out := SignedImagesJSON{signed.GetImages(), append([]string{}, signed.GetKeys()...), []ImageIdentityJSON{}}
	for _, i := range signed.GetIdentities() {
		out.Identities = append(out.Identities, ImageIdentityJSON{
			i.GetCertificateIdentity(), i.GetCertificateIdentityRegexp(), i.GetCertificateOidcIssuer(), i.GetCertificateOidcIssuerRegexp(), i.GetPredicateType(),
		})
	}
	return out
}

func imageRulesJSON(rules *pb.ImageRules) *ImageRulesJSON {
	if rules == nil {
		return nil
	}
	out := &ImageRulesJSON{append([]string{}, rules.GetAllow()...), append([]string{}, rules.GetDeny()...), append([]string{}, rules.GetBarred()...), []SignedImagesJSON{}}
	for _, signed := range rules.GetSigned() {
		out.Signed = append(out.Signed, signedImagesJSON(signed))
	}
	return out
}

func boundText(bytes uint64) string {
	if bytes == noLimit {
		return unlimited
	}
	return spec.FormatSize(bytes)
}

// powerText is what a GPU draws that a guest has.
func powerText(watts uint32) string {
	if watts == 0 {
		return unlimited
	}
	return fmt.Sprintf("%dW", watts)
}

// rateText is how much guests move in a second, each way.
func rateText(bytes uint64) string {
	if bytes == 0 {
		return unlimited
	}
	return spec.FormatSize(bytes) + "/s"
}

func maxTimeText(seconds uint32) string {
	if seconds == spec.Unlimited {
		return unlimited
	}
	return spec.FormatDuration(seconds)
}

func hoursText(terms *pb.Lending) string {
	if terms.GetTimeZone() == "" || terms.GetHours() == spec.Always || terms.GetHours() == spec.Never {
		return terms.GetHours()
	}
	return terms.GetHours() + " " + terms.GetTimeZone()
}

// LendingJSON are the terms of a node as JSON. A limit that is not there is null.
type LendingJSON struct {
	Node              string          `json:"node"`
	Owner             string          `json:"owner"`
	Lent              string          `json:"lent"`     // yes, no, partly
	UntilMs           int64           `json:"until_ms"` // until when that is so; 0 = nobody knows
	Default           bool            `json:"default"`  // nothing was set
	NoticeMs          uint32          `json:"notice_ms"`
	Hours             string          `json:"hours"`
	TimeZone          string          `json:"time_zone"`
	GpuPercent        uint32          `json:"gpu_percent"`
	Accounts          []string        `json:"accounts"` // empty = all
	ParkedMemoryBytes *uint64         `json:"parked_memory_bytes"`
	GuestMemoryBytes  *uint64         `json:"guest_memory_bytes"`
	GuestTmpBytes     *uint64         `json:"guest_tmp_bytes"`
	GuestNetworkBytes *uint64         `json:"guest_network_bytes"` // in a second, each way
	GuestIOBytes      *uint64         `json:"guest_io_bytes"`      // likewise, of each disk
	GuestPowerWatts   *uint32         `json:"guest_power_watts"`   // of each GPU
	Network           string          `json:"network"`             // of guests: private-only, private, host
	NetworkAllow      []string        `json:"network_allow"`       // empty = everywhere
	NestedContainers  bool            `json:"nested_containers"`   // guests may make containers of their own
	MaxUnsavedS       *uint32         `json:"max_unsaved_s"`
	ImageRules        *ImageRulesJSON `json:"image_rules"` // null = all that the site allows
	Kill              bool            `json:"kill"`        // guests without a bound may run, and are killed
	By                string          `json:"by"`
	AtMs              int64           `json:"at_ms"`
}

// LendingJSONOf is a row as JSON.
func LendingJSONOf(row *LendingRow, now time.Time) *LendingJSON {
	t := row.Terms
	record := &LendingJSON{
		Node: row.Node.GetName(), Owner: row.Node.GetOwnerAccount(), Default: row.Node.GetLending() == nil, NoticeMs: t.GetNoticeMs(), Hours: t.GetHours(), TimeZone: t.GetTimeZone(),
		GpuPercent: t.GetGpuPercent(), Accounts: append([]string{}, t.GetAccounts()...), ParkedMemoryBytes: limitOrNull(t.GetParkedMemoryBytes()),
		GuestMemoryBytes: limitOrNull(t.GetGuestMemoryBytes()), GuestTmpBytes: limitOrNull(t.GetGuestTmpBytes()), By: t.GetBy(), AtMs: t.GetAtMs(),
		Kill: t.GetUnbounded(), Network: guestNetworkText(row.Node, t), NetworkAllow: append([]string{}, t.GetNetworkAllow()...), NestedContainers: t.GetNestedContainers(), ImageRules: imageRulesJSON(t.GetImageRules()),
	}
	if t.GetGuestNetworkBytes() != 0 {
		record.GuestNetworkBytes = &t.GuestNetworkBytes
	}
	if t.GetGuestIoBytes() != 0 {
		record.GuestIOBytes = &t.GuestIoBytes
	}
	if t.GetGuestPowerWatts() != 0 {
		record.GuestPowerWatts = &t.GuestPowerWatts
	}
	if t.GetMaxUnsavedS() != spec.Unlimited {
		record.MaxUnsavedS = &t.MaxUnsavedS
	}
	record.Lent, record.UntilMs = lentNow(row.Node, t, now)
	return record
}

// guestNetworkText is the rule for the network of guests.
func guestNetworkText(node *pb.Node, terms *pb.Lending) string {
	standard := "host"
	if node.GetOwnerAccount() != "" {
		standard = "private-only"
	}
	return cmp.Or(terms.GetNetwork(), standard)
}

func limitOrNull(bytes uint64) *uint64 {
	if bytes == noLimit {
		return nil
	}
	return &bytes
}

// nodeLending adds the terms of a node to its record, where its owner has set some.
func nodeLending(r *Record, node *pb.Node, view *View) {
	terms := node.GetLending()
	if terms == nil {
		return
	}
	r.Line(Item("LendingHours", hoursText(terms)), Item("Notice", PromiseText(int64(terms.GetNoticeMs()))), Item("GuestGPUs", fmt.Sprintf("%d%%", terms.GetGpuPercent())),
		Item("GuestAccounts", accountsText(terms)))
	if terms.GetImageRules() != nil {
		r.Line(Item("GuestImages", imageRulesText(terms.GetImageRules())))
	}
	r.Line(Item("GuestMemory", boundText(terms.GetGuestMemoryBytes())), Item("GuestTmp", boundText(terms.GetGuestTmpBytes())), Item("GuestNetwork", rateText(terms.GetGuestNetworkBytes())),
		Item("GuestIO", rateText(terms.GetGuestIoBytes())), Item("GuestPower", powerText(terms.GetGuestPowerWatts())), Item("ParkedMemory", boundText(terms.GetParkedMemoryBytes())),
		Item("MaxUnsavedTime", maxTimeText(terms.GetMaxUnsavedS())), Item("LendingSetBy", OrNull(terms.GetBy())), Item("LendingSetTime", view.Stamp(terms.GetAtMs(), "Unknown")))
	r.Line(Item("NetworkOfGuests", guestNetworkText(node, terms)), Item("NetworkAllow", cmp.Or(strings.Join(terms.GetNetworkAllow(), ","), spec.Everywhere)))
	if terms.GetNestedContainers() {
		r.Line("NestedContainersOfGuests=YES")
	}
	if len(terms.GetTriggers()) > 0 {
		var words []string
		for _, trigger := range terms.GetTriggers() {
			words = append(words, triggerWord(trigger))
		}
		r.Line(Item("Triggers", strings.Join(words, ",")), Item("QuietTime", PromiseText(int64(terms.GetQuietS())*1000)))
	}
}
