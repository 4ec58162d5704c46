package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// perl is what the job that is saved is a program for: every Debian has it, and
// it is small.
const perl = "/usr/bin/perl"

// What the job does when it has its memory.
const (
	idle = 0 // next to nothing
	busy = 1 // it keeps writing to all of its memory
)

// holder takes so much memory, of which one half is noise and the other one
// text, in no two pages the same. Then it writes into a file, about every
// millisecond, what time it is, the longest that it has ever been held up, and when that
// was over, in microseconds.
const holder = `#!` + perl + `
use strict;
use Time::HiRes qw(time sleep);
my ($mebibytes, $busy, $ticks) = (%d, %d, '%s');
open(my $noise, '<:raw', '/dev/urandom') or die;
my @memory;
for my $number (1 .. $mebibytes) {
    my $piece = '';
    sysread($noise, $piece, 1 << 19) or die;
    for my $page (1 .. 128) {
        my $line = sprintf("line %%d of what a program keeps in memory\n", rand(1e9));
        $piece .= substr($line x (4096 / length($line) + 1), 0, 4096);
    }
    push @memory, $piece;
}
open(my $file, '+<:raw', $ticks) or die;
my ($last, $longest, $over) = (time, 0, 0);
while (1) {
    my $now = time;
    ($longest, $over) = ($now - $last, $now) if $now - $last > $longest;
    $last = $now;
    sysseek($file, 0, 0);
    syswrite($file, pack('qqq', $now * 1e6, $longest * 1e6, $over * 1e6));
    if ($busy) {
        substr($memory[rand(@memory)], rand(1 << 20), 1) = 'x' for 1 .. 1000;
    } else {
        sleep(0.001);
    }
}
`

// writeHolder returns the program's path, and that of the file it writes.
func (b *bench) writeHolder(name string, mib, does int) (script, ticks string, err error) {
	ticks = filepath.Join(b.scripts.output, name+".ticks")
	script = filepath.Join(b.shared, name+".pl")
	err = errors.Join(
		os.WriteFile(ticks, make([]byte, tickBytes), 0o666), os.Chown(ticks, int(b.user.UID), int(b.user.GID)),
		os.WriteFile(script, fmt.Appendf(nil, holder, mib, does, ticks), 0o755), os.Chmod(script, 0o755),
	)
	return script, ticks, err
}

// runPatience bounds the wait for a job to run: it fills its memory first.
const runPatience = 5 * time.Minute

// tickBytes is the length of what the program writes.
const tickBytes = 24

// ticked is what the program wrote last.
type ticked struct {
	longest time.Duration // that it was held up
	over    time.Time     // when that was over
}

// untilRuns waits until the program has written at a time after begin.
func untilRuns(ctx context.Context, ticks string, begin time.Time) (last ticked, err error) {
	err = until(ctx, "the job to run", runPatience, time.Millisecond, func() (bool, error) {
		data, err := os.ReadFile(ticks)
		if err != nil || len(data) != tickBytes {
			return false, err
		}
		last.longest = time.Duration(binary.LittleEndian.Uint64(data[8:])) * time.Microsecond
		last.over = time.UnixMicro(int64(binary.LittleEndian.Uint64(data[16:])))
		return int64(binary.LittleEndian.Uint64(data)) > begin.UnixMicro(), nil
	})
	return last, err
}
