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
		"modify account physics set maxwall=0 grpwall=0:00":                                        `limits:[{kind:12},{kind:6}]`,
		"modify account physics set maxwall=-1 grpwall=unlimited":                                  `limits:[{kind:12,clear:true},{kind:6,clear:true}]`,
		"modify qos normal set maxwall=0 grpwall=00:00:30":                                         `limits:[{kind:12},{kind:6,value:1}]`,
		"modify user adam set grpjobs=0 grpsubmit=0 maxjobs=0 maxsubmit=0":                         `limits:[{kind:1},{kind:2},{kind:7},{kind:8}]`,
		"modify account physics set grptres=cpu=0 grptresmins=cpu=0 grptresrunmins=cpu=0":          `limits:[{kind:3,tres:cpu},{kind:4,tres:cpu},{kind:5,tres:cpu}]`,
		"modify account physics set maxtres=cpu=0 maxtrespern=cpu=0 maxtresmins=cpu=-1":            `limits:[{kind:9,tres:cpu},{kind:10,tres:cpu},{kind:11,tres:cpu,clear:true}]`,
		"modify qos normal set maxtrespu=cpu=0 maxtrespa=cpu=0 mintres=cpu=0":                      `limits:[{kind:13,tres:cpu},{kind:14,tres:cpu},{kind:17,tres:cpu}]`,
		"modify qos normal set maxjobspu=0 maxsubmitpu=0 maxjobspa=0 maxsubmitpa=0":                `limits:[{kind:7},{kind:8},{kind:15},{kind:16}]`,
		"modify qos normal set preemptexempttime=0:00 gracetime=0":                                 `graceTimeS:0,exemptTimeS:0`,
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
		"modify account physics set grpwall=-2":          "Bad value for GrpWall",
		"modify account physics set grpwall=":            "Bad value for GrpWall",
		"modify account physics set grpjobs=-2":          "Bad value for GrpJobs",
		"modify account physics set grpjobs=":            "Bad value for GrpJobs",
		"modify account physics set maxjobs=1.5":         "Bad value for MaxJobs",
		"modify account physics set maxjobs=2147483648":  "Bad value for MaxJobs",
		"modify qos normal set gracetime=-2":             "Bad value for GraceTime",
		"modify qos normal set preemptexempttime=-2":     "Bad value for PreemptExemptTime",
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

// TestLoadWhatWasDumped: a dump loaded where it was made changes what is there
// to what is there, and loaded elsewhere adds all of it.
func TestLoadWhatWasDumped(t *testing.T) {
	full := lab()
	full.QOS = []*pb.Qos{
		{Name: "high", Description: "it's: high", Priority: 9, Preempts: []string{"normal"}, PreemptMode: "requeue", GraceTimeS: 90, ExemptTimeS: proto.Uint32(300),
			UsageFactorPpm: proto.Uint32(1_250_000), Flags: []string{"DenyOnLimit"}, Limits: []*pb.Limit{
				{Kind: pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_USER, Tres: "gres/gpu:a100", Value: 4}, {Kind: pb.LimitKind_LIMIT_KIND_MAX_JOBS, Value: 2},
			}},
		{Name: "normal", Description: "Normal QOS default"},
	}
	full.Users[0].Level = pb.AdminLevel_ADMIN_LEVEL_OPERATOR
	full.Associations[1].Limits = []*pb.Limit{
		{Kind: pb.LimitKind_LIMIT_KIND_GROUP_TRES, Tres: "mem", Value: 3 << 29}, {Kind: pb.LimitKind_LIMIT_KIND_GROUP_TRES_MINUTES, Tres: "mem", Value: 7},
		{Kind: pb.LimitKind_LIMIT_KIND_MAX_WALL_MINUTES, Value: 4321},
	}
	full.Associations[1].Qos, full.Associations[1].DefaultQos = []string{"high", "normal"}, "high"
	full.Associations[2].ShareParent = true
	var dumped bytes.Buffer
	if err := full.Dump(&dumped); err != nil {
		t.Fatal(err)
	}
	here, err := full.Load(dumped.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, &dumped)
	}
	for _, c := range here.Changes {
		if c.Action != pb.ChangeAction_CHANGE_ACTION_MODIFY {
			t.Errorf("added although it is there: %v", c)
		}
	}
	empty := new(Listing)
	empty.Add(&pb.ListAccountsResponse{Cluster: "new", Qos: []*pb.Qos{{Name: "normal"}}, Accounts: []*pb.Account{{Name: "root"}}, Associations: []*pb.Association{{Id: 1, Account: "root", Shares: 1}}})
	there, err := empty.Load(dumped.String())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range there.Changes {
		got = append(got, short(t, c))
	}
	want := []string{
		`action:1,record:4,qos:high,description:it's: high,priority:9,limits:[{kind:7,value:2},{kind:13,tres:gres/gpu:a100,value:4}],preemptMode:requeue,graceTimeS:90,exemptTimeS:300,usageFactorPpm:1250000,flagsOn:[DenyOnLimit],flagsOff:[NoDecay,OverPartQOS]`,
		`action:2,record:4,qos:normal,description:Normal QOS default,priority:0`,
		`action:2,record:1,account:root,shares:1`,
		`action:1,record:1,account:physics,parent:root,description:"",organization:"",shares:3,limits:[{kind:3,tres:mem,value:1610612736},{kind:4,tres:mem,value:7},{kind:12,value:4321}],allowedQos:{operation:1,names:[high,normal]},defaultQos:high`,
		`action:1,record:3,account:physics,user:adam,shareParent:true`,
		`action:2,record:4,qos:high,preempts:{operation:1,names:[normal]}`,
		`action:2,record:2,user:adam,defaultAccount:physics,level:1`,
		`action:2,record:1,account:physics,coordinators:{operation:2,names:[adam]}`,
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("change %d of\n%s\n got  %v\n want %v", i, &dumped, got[min(i, len(got)):], want[min(i, len(want)):])
			break
		}
	}
}

// TestLoadSlurms: the example of sacctmgr(1).
func TestLoadSlurms(t *testing.T) {
	plan, err := lab().Load(`# a comment
Cluster - tux:MaxTRESPerJob=node=15
Parent - root
Account - cs:MaxTRESPerJob=node=5:MaxJobs=4:FairShare=399:MaxWallDurationPerJob=40:Description='Computer Science':Organization='LC'
Parent - cs
Account - test:MaxTRESPerJob=node=1:MaxJobs=1:FairShare=1:MaxWallDurationPerJob=1:Description='Test Account':Organization='Test'
Parent - test
User - adam:MaxTRESPerJob=node=2:MaxJobs=3:FairShare=1:MaxWallDurationPerJob=1:AdminLevel=Operator:Coordinator='test'
`)
	if err != nil || len(plan.Changes) != 6 {
		t.Fatalf("%v, %v", plan, err)
	}
	for text, want := range map[string]string{
		"Account - x": "", "account - X:fairshare=3": "", "Acount - x": "no such title", "Account: x": "is not", "Parent - y": "must come before",
		"User - adam:Fairshare": "key=value", "User - adam:Farshare=3": "Fairshare", "Account - 'x": "not closed", "Account - root": "line of the cluster",
		"Account - x:GrpTRES=gpu": "Bad value", "QOS - x:Fairshare=3": "a value of", "QOS - x:Cluster=y": "which record",
	} {
		if _, err := lab().Load(text); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, and should say %q", text, err, want)
		}
	}
}

// FuzzLoad: whatever a file holds, it is refused in words or makes changes that
// say what they are.
func FuzzLoad(f *testing.F) {
	var dumped bytes.Buffer
	if err := lab().Dump(&dumped); err != nil {
		f.Fatal(err)
	}
	f.Add(dumped.String())
	f.Add("Cluster - x:QOS='a,b'\nParent - root\nAccount - c:GrpTRES=cpu=3,mem=4G:Description=\"x: y\"\nParent - c\nUser - u:Partition=gpu:Coordinator=c:AdminLevel=Admin\n")
	f.Fuzz(func(t *testing.T, text string) {
		plan, err := lab().Load(text)
		if err != nil {
			return
		}
		for _, change := range plan.Changes {
			if change.Action == 0 || change.Record == 0 {
				t.Fatalf("a change that says not what it is: %v", change)
			}
		}
	})
}
