package account

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func lab() *Listing {
	l := new(Listing)
	l.Add(&pb.ListAccountsResponse{
		Cluster: "lab", Tres: []string{"billing", "cpu", "gres/gpu", "gres/gpu:a100", "mem", "node"},
		Accounts: []*pb.Account{{Name: "physics", Parent: "root", Coordinators: []string{"adam"}}, {Name: "root"}},
		Users:    []*pb.AccountUser{{Name: "adam", DefaultAccount: "physics"}},
		Qos:      []*pb.Qos{{Name: "normal"}},
	})
	l.Add(&pb.ListAccountsResponse{Associations: []*pb.Association{
		{Id: 1, Account: "root", Shares: 1},
		{Id: 2, Account: "physics", ParentAccount: "root", Shares: 3, Depth: 1},
		{Id: 3, Account: "physics", User: "adam", ParentAccount: "physics", Shares: 2, Depth: 2},
	}})
	return l
}

// TestValues: what is typed becomes this change, whatever name or alias it has.
func TestValues(t *testing.T) {
	for typed, want := range map[string]string{
		"modify account physics set fairshare=7":                                                   `shares:7`,
		"modify account physics set share=-1":                                                      `shares:1`,
		"modify account physics set FairShare=Parent":                                              `shareParent:true`,
		"modify account physics set grptres=cpu=4,mem=10,gres/gpu:A100=2":                          `limits:[{kind:3,tres:cpu,value:4},{kind:3,tres:mem,value:10485760},{kind:3,tres:gres/gpu:A100,value:2}]`,
		"modify account physics set GrpTRESMins=billing=-1":                                        `limits:[{kind:4,tres:billing,clear:true}]`,
		"modify account physics set GrpCPUs=9 MaxNodes=2":                                          `limits:[{kind:3,tres:cpu,value:9},{kind:9,tres:node,value:2}]`,
		"modify account physics set maxwall=90":                                                    `limits:[{kind:12,value:90}]`,
		"modify account physics set maxwall=1-0 grpwall=-1":                                        `limits:[{kind:12,value:1440},{kind:6,clear:true}]`,
		"modify account physics set maxwall=0:30":                                                  `limits:[{kind:12,value:1}]`,
		"modify account physics set maxsubmit=5 grpsubmit=6 grpjobs=0":                             `limits:[{kind:8,value:5},{kind:2,value:6},{kind:1}]`,
		"modify account physics set qos=High,normal":                                               `allowedQos:{operation:1,names:[high,normal]}`,
		"modify account physics set qoslevel-=high":                                                `allowedQos:{operation:3,names:[high]}`,
		"modify account physics set qos=''":                                                        `allowedQos:{operation:1}`,
		"modify account physics set defaultqos=-1 priority=5":                                      `priority:5,defaultQos:""`,
		"modify account physics set parent=Root rawusage=0":                                        `parent:root,resetUsage:true`,
		`modify account physics set description="two words"`:                                       `description:two words`,
		"modify user adam set adminlevel=Administrator":                                            `level:2`,
		"modify user adam set defaultaccount=Physics":                                              `defaultAccount:physics`,
		"modify qos normal set preemptmode=off gracetime=90":                                       `preemptMode:"",graceTimeS:90`,
		"modify qos normal set gracetime=0:01:30 preemptexempt=5":                                  `graceTimeS:90,exemptTimeS:300`,
		"modify qos normal set preemptexempttime=-1 usagefactor=0.5":                               `exemptTimeS:-1,usageFactorPpm:500000`,
		"modify qos normal set flags+=nodecay,denyonlimit":                                         `flagsOn:[DenyOnLimit,NoDecay]`,
		"modify qos normal set flags=-1":                                                           `flagsOff:[DenyOnLimit,NoDecay,OverPartQOS]`,
		"modify qos normal set MaxTRESPU=cpu=1 MaxJobsPU=2 MaxSubmitPA=3":                          `limits:[{kind:13,tres:cpu,value:1},{kind:7,value:2},{kind:16,value:3}]`,
		"modify qos normal set mintres=cpu=2 maxjobsperaccount=4 maxtrespa=a=1":                    `limits:[{kind:17,tres:cpu,value:2},{kind:15,value:4},{kind:14,tres:a,value:1}]`,
		"modify qos normal set maxtres=cpu=2 maxtresmins=cpu=3 maxtrespern=cpu=4 grptresrun=cpu=5": `limits:[{kind:9,tres:cpu,value:2},{kind:11,tres:cpu,value:3},{kind:10,tres:cpu,value:4},{kind:5,tres:cpu,value:5}]`,
	} {
		plan := planOf(t, typed)
		if plan == nil || len(plan.Changes) != 1 {
			t.Errorf("%s: %d changes", typed, len(plan.Changes))
			continue
		}
		change := proto.Clone(plan.Changes[0]).(*pb.AccountChange)
		change.Action, change.Record, change.Account, change.User, change.Qos = 0, 0, "", "", ""
		if got := short(t, change); got != want {
			t.Errorf("%s\n got  %s\n want %s", typed, got, want)
		}
	}
}

func planOf(t *testing.T, typed string) *Plan {
	t.Helper()
	request, err := Parse(wordsOf(typed))
	if err != nil {
		t.Fatalf("%s: %v", typed, err)
	}
	plan, err := request.Plan(lab())
	if err != nil {
		t.Fatalf("%s: %v", typed, err)
	}
	return plan
}

// wordsOf parts a line as a shell would, quotes of a value kept.
func wordsOf(line string) []string {
	var words []string
	for _, word := range strings.Fields(line) {
		if last := len(words) - 1; last >= 0 && strings.Count(words[last], `"`) == 1 {
			words[last] += " " + word
			continue
		}
		words = append(words, word)
	}
	return words
}

// short writes a change without quotes where none are needed.
func short(t *testing.T, change *pb.AccountChange) string {
	t.Helper()
	text, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(change)
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		t.Fatal(err)
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(compact.String(), "{"), "}")
	empty := strings.ReplaceAll(inner, `""`, "\x00")
	return strings.ReplaceAll(strings.ReplaceAll(empty, `"`, ""), "\x00", `""`)
}

// TestRefused: each says what is wrong and what to type.
func TestRefused(t *testing.T) {
	for typed, want := range map[string]string{
		"":                              "no command given",
		"frobnicate account":            "invalid command",
		"add association user=adam":     "by way of their users",
		"add tres cpu":                  "shown only",
		"delete cluster lab":            "the only one",
		"modify coordinator adam set x": "added and deleted",
		"add account":                   "Need name",
		"add account=physics":           "invalid entity",
		"modify account physics set fairshare+=3":        "is no list",
		"modify account physics set newname=x":           "not supported",
		"modify account physics set x":                   "no NAME=VALUE",
		"modify account physics set fairshare=parents":   "Bad value for Fairshare",
		"modify account physics set grptres=cpu=-2":      "Bad value for GrpTRES",
		"modify account physics set maxwall=soon":        "Bad value for MaxWallDurationPerJob",
		"modify account physics set preempt=low":         "a value of qos",
		"modify account physics set rawusage=3":          "0 only",
		"modify qos normal set usagefactor=NaN":          "Bad value for UsageFactor",
		"modify qos normal set flags=NoReserve":          "Bad value for Flags",
		"modify user adam set adminlevel=king":           "Operator or Admin",
		"modify account fairshare=3 set priority=3":      "no condition",
		"modify account physics set qos+=":               "name what to add",
		"modify account physics set qos+=a qos+=b":       "given twice",
		"delete account set fairshare=3":                 "leave it out",
		"add coordinator names=adam":                     "account=ACCOUNT",
		"show account withdeleted":                       "not kept",
		"modify account where name-=physics set share=3": "is no list",
	} {
		_, err := Parse(wordsOf(typed))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, and should say %q", typed, err, want)
		}
	}
}

// TestTableFits: every field of every entity can be shown, of every record.
func TestTableFits(t *testing.T) {
	for _, entity := range entities {
		for _, option := range append([]string{""}, options...) {
			words := []string{"show", entity.names[0]}
			if _, later := laterOptions[option]; option != "" && !later {
				words = append(words, option)
			}
			request, err := Parse(words)
			if err != nil {
				t.Fatal(words, err)
			}
			var all []string
			for _, field := range request.fields() {
				all = append(all, field.names[0]+"%3")
			}
			request.Where = append(request.Where, Setting{Key: keyFormat, Operator: Set, Value: strings.Join(all, ",")})
			table, err := request.Table(lab())
			if err != nil {
				t.Fatal(words, err)
			}
			var out bytes.Buffer
			if err := table.Write(Style{}, &out); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				if len(line) != 4*len(all)+1 {
					t.Errorf("%v: a line of %d characters: %q", words, len(line), line)
				}
			}
			if _, err := json.Marshal(request.Records(lab())); err != nil {
				t.Error(err)
			}
		}
	}
}

// FuzzWords: whatever is typed is understood or refused in words, and what is
// understood makes a plan, or a table.
func FuzzWords(f *testing.F) {
	for _, seed := range []string{
		"add account maths parent=science fairshare=3 grptres=cpu=4,mem=1.5G", "add user a,b account=physics,root partition=gpu adminlevel=op maxwall=1-2:3",
		"modify user where name=adam account=physics set qos+=high maxjobs=-1", "modify qos normal set flags-=NoDecay preempt='' usagefactor=0.25",
		"delete user adam account=physics", "delete account physics,root", "show assoc tree format=account%-20,user%0,qos%3 withsub", "show user withassoc withcoord",
		"add coordinator account=physics names=adam", "modify cluster set fairshare=parent", "show tres name=cpu", "list coord",
	} {
		f.Add(strings.ReplaceAll(seed, " ", "\n"))
	}
	f.Fuzz(func(t *testing.T, typed string) {
		request, err := Parse(strings.Split(typed, "\n"))
		if err != nil {
			if err.Error() == "" {
				t.Fatal("refused without a word")
			}
			return
		}
		if request.Verb == Show {
			if table, err := request.Table(lab()); err == nil {
				var out bytes.Buffer
				if err := table.Write(Style{}, &out); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := json.Marshal(request.Records(lab())); err != nil {
				t.Fatal(err)
			}
			return
		}
		plan, err := request.Plan(lab())
		if err != nil {
			return
		}
		for _, change := range plan.Changes {
			if change.Action == 0 || change.Record == 0 {
				t.Fatalf("a change that says not what it is: %v", change)
			}
		}
		if len(plan.Changes) == 0 && plan.Nothing == "" {
			t.Fatal("nothing to do and nothing to say")
		}
	})
}
