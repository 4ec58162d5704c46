package explain

import (
	"strings"

	"github.com/gleaner-hpc/gleaner/sched"
)

// limitWords has, for each kind, what it is called where it is set, for an
// association and for a QOS, and Slurm's reasons ("Job Reason Codes" in
// resource_limits), with * in the place of the TRES.
var limitWords = [...]struct {
	association, qos              string
	associationReason, qosReason  string
	associationTRES, qosTRESWords *tresWords
}{
	sched.LimitGroupJobs:            {"GrpJobs", "GrpJobs", "AssocGrpJobsLimit", "QOSGrpJobsLimit", nil, nil},
	sched.LimitGroupWall:            {"GrpWall", "GrpWall", "AssocGrpWallLimit", "QOSGrpWallLimit", nil, nil},
	sched.LimitGroupTRES:            {"GrpTRES", "GrpTRES", "AssocGrp*", "QOSGrp*", &longWords, &longWords},
	sched.LimitGroupTRESMinutes:     {"GrpTRESMins", "GrpTRESMins", "AssocGrp*", "QOSGrp*", &minuteWords, &qosMinuteWords},
	sched.LimitGroupTRESRunMinutes:  {"GrpTRESRunMins", "GrpTRESRunMins", "AssocGrp*", "QOSGrp*", &runMinuteWords, &qosRunMinuteWords},
	sched.LimitMaxJobs:              {"MaxJobs", "MaxJobsPerUser", "AssocMaxJobsLimit", "QOSMaxJobsPerUserLimit", nil, nil},
	sched.LimitMaxJobsPerAccount:    {"", "MaxJobsPerAccount", "", "MaxJobsPerAccount", nil, nil},
	sched.LimitMaxTRESPerUser:       {"", "MaxTRESPerUser", "", "QOSMax*", nil, &perUserWords},
	sched.LimitMaxTRESPerAccount:    {"", "MaxTRESPerAccount", "", "Max*PerAccount", nil, &qosWords},
	sched.LimitMaxTRESPerJob:        {"MaxTRESPerJob", "MaxTRESPerJob", "AssocMax*", "QOSMax*", &perJobWords, &qosPerJobWords},
	sched.LimitMaxTRESPerNode:       {"MaxTRESPerNode", "MaxTRESPerNode", "AssocMax*PerNode", "QOSMax*PerNode", &plainWords, &qosWords},
	sched.LimitMaxTRESMinutesPerJob: {"MaxTRESMinsPerJob", "MaxTRESMinsPerJob", "AssocMax*", "QOSMax*", &minutesPerJobWords, &qosMinutesPerJobWords},
	sched.LimitMaxWall:              {"MaxWall", "MaxWall", "AssocMaxWallDurationPerJobLimit", "QOSMaxWallDurationPerJobLimit", nil, nil},
	sched.LimitMinTRESPerJob:        {"", "MinTRESPerJob", "", "QOSMin*", nil, &leastWords},
	sched.LimitGroupSubmit:          {"GrpSubmitJobs", "GrpSubmitJobs", "AssocGrpSubmitJobsLimit", "QOSGrpSubmitJobsLimit", nil, nil},
	sched.LimitMaxSubmit:            {"MaxSubmitJobs", "MaxSubmitJobsPerUser", "AssocMaxSubmitJobLimit", "QOSMaxSubmitJobPerUserLimit", nil, nil},
	sched.LimitMaxSubmitPerAccount:  {"", "MaxSubmitJobsPerAccount", "", "MaxSubmitJobsPerAccount", nil, nil},
	sched.LimitLicenses:             {"", "", "Licenses", "Licenses", nil, nil},
}

// tresWords is how a family of Slurm's reasons writes each kind of TRES: it is
// not the same in any two of them.
type tresWords struct{ billing, cpu, gres, license, memory, node string }

var (
	plainWords            = tresWords{"Billing", "Cpu", "GRES", "License", "Mem", "Node"}
	qosWords              = tresWords{"Billing", "Cpu", "GRES", "License", "Memory", "Node"}
	longWords             = tresWords{"Billing", "CpuLimit", "GRES", "License", "MemLimit", "NodeLimit"}
	minuteWords           = tresWords{"BillingMinutes", "CPUMinutesLimit", "GRESMinutes", "LicenseMinutes", "MemMinutes", "NodeMinutes"}
	qosMinuteWords        = tresWords{"BillingMinutes", "CPUMinutesLimit", "GRESMinutes", "LicenseMinutes", "MemoryMinutes", "NodeMinutes"}
	runMinuteWords        = tresWords{"BillingRunMinutes", "CPURunMinutesLimit", "GRESRunMinutes", "LicenseRunMinutes", "MemRunMinutes", "NodeRunMinutes"}
	qosRunMinuteWords     = tresWords{"BillingRunMinutes", "CPURunMinutesLimit", "GRESRunMinutes", "LicenseRunMinutes", "MemoryRunMinutes", "NodeRunMinutes"}
	perJobWords           = tresWords{"BillingPerJob", "CpuPerJobLimit", "GRESPerJob", "LicensePerJob", "MemPerJob", "NodePerJobLimit"}
	qosPerJobWords        = tresWords{"BillingPerJob", "CpuPerJobLimit", "GRESPerJob", "LicensePerJob", "MemoryPerJob", "NodePerJobLimit"}
	minutesPerJobWords    = tresWords{"BillingMinutesPerJob", "CpuMinutesPerJobLimit", "GRESMinutesPerJob", "LicenseMinutesPerJob", "MemMinutesPerJob", "NodeMinutesPerJob"}
	qosMinutesPerJobWords = tresWords{"BillingMinutesPerJob", "CpuMinutesPerJobLimit", "GRESMinutesPerJob", "LicenseMinutesPerJob", "MemoryMinutesPerJob", "NodeMinutesPerJob"}
	perUserWords          = tresWords{"BillingPerUser", "CpuPerUserLimit", "GRESPerUser", "LicensePerUser", "MemoryPerUser", "NodePerUserLimit"}
	leastWords            = tresWords{"Billing", "CpuNotSatisfied", "GRES", "License", "Memory", "Node"}
)

// of is the word for a TRES.
func (w *tresWords) of(name string) string {
	switch {
	case name == sched.TRESBilling:
		return w.billing
	case name == sched.TRESCPU:
		return w.cpu
	case name == sched.TRESMemory:
		return w.memory
	case name == sched.TRESNode:
		return w.node
	case strings.HasPrefix(name, sched.TRESLicense):
		return w.license
	}
	return w.gres
}

// LimitReason is Slurm's word for having reached the limit.
func LimitReason(r *sched.LimitReached, s sched.Snapshot) string {
	kind := &limitWords[r.Kind]
	word, tres := kind.associationReason, kind.associationTRES
	if r.QOS >= 0 {
		word, tres = kind.qosReason, kind.qosTRESWords
	}
	if tres == nil {
		return word
	}
	return strings.Replace(word, "*", tres.of(s.TRES[r.TRES]), 1)
}

// setting is what the limit is called where it is set: "GrpTRES=cpu".
func setting(r *sched.LimitReached, s sched.Snapshot) string {
	name := limitWords[r.Kind].association
	if r.QOS >= 0 {
		name = limitWords[r.Kind].qos
	}
	if r.TRES >= 0 {
		name += "=" + s.TRES[r.TRES]
	}
	return name
}
