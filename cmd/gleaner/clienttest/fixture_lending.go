package clienttest

import pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

// StubLending are the terms of the only node whose owner has set some.
func StubLending() *pb.Lending {
	return &pb.Lending{
		Owner: "chem", NoticeMs: 90_000, Unbounded: true, Hours: "Mon-Fri 18:00-08:00; Sat-Sun", TimeZone: "Europe/Berlin", GpuPercent: 50, Accounts: []string{"bio", "geo"},
		ParkedMemoryBytes: 64 << 30, GuestMemoryBytes: 1<<64 - 1, GuestTmpBytes: 1<<64 - 1, MaxUnsavedS: 14400, QuietS: 900, By: "ada", AtMs: StubNow.UnixMilli(),
	}
}

// StubHabit is what is known of the owner of that node.
func StubHabit() *pb.OwnerHabit {
	return &pb.OwnerHabit{SinceMs: StubNow.UnixMilli(), PerWeekMilli: 4_250, KilledPermille: 62, Guests: 5, Hours: []*pb.HabitHour{
		{Hour: 8, TakenPermille: 857, Times: 6, AtS: 30, SpreadS: 213}, {Hour: 24 + 23, TakenPermille: 62, Times: 1, AtS: 1800, SpreadS: 900}, {Hour: 7*24 - 1, TakenPermille: 1000, Times: 255, AtS: 3599, SpreadS: 0},
	}}
}
