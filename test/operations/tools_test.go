package operations

// tools replace those of a machine with systemd and ssh.
var tools = map[string]string{
	// Units are started with what their own files say.
	"systemctl": `#!/bin/bash
verb=$1; shift
unit=; now=
for word; do case $word in --now) now=1 ;; -*) ;; *) unit=${word%.service} ;; esac; done
pid=/run/$unit.pid
alive() { [ -s $pid ] && kill -0 $(cat $pid) 2>/dev/null; }
stop() { if alive; then kill $(cat $pid); for i in $(seq 1200); do alive || break; sleep 0.05; done; fi; rm -f $pid; }
says() { sed -n s/^$1=//p /etc/systemd/system/$unit.service; }
start() {
	alive && return
	user=$(says User) as=
	for pair in RuntimeDirectory=/run StateDirectory=/var/lib; do
		[ -z "$(says ${pair%=*})" ] || install -d -o ${user:-root} -g ${user:-root} ${pair#*=}/$(says ${pair%=*})
	done
	[ -z "$user" ] || as="setpriv --reuid $user --regid $user --clear-groups --bounding-set -all --no-new-privs"
	setsid bash -c 'echo $$ >'$pid"; exec $as $(says ExecStart)" >>/run/$unit.log 2>&1 </dev/null &
	for i in $(seq 100); do [ -s $pid ] && break; sleep 0.05; done
	# The services' own start-up: what fails at once is seen by is-active.
	sleep 0.3
}
case $verb in
enable) [ -z "$now" ] || start ;;
start) start ;;
stop) stop ;;
restart) stop; start ;;
is-active) if alive; then echo active; else echo inactive; exit 3; fi ;;
*) echo "systemctl $verb: not here" >&2; exit 1 ;;
esac
`,
	"journalctl": `#!/bin/bash
lines=10 unit=gctld
while [ $# -gt 0 ]; do case $1 in -u) unit=$2; shift ;; -n) lines=$2; shift ;; esac; shift; done
tail -n $lines /run/$unit.log
`,
	// The shell of the other host finds homes, as ssh's does.
	"scp": `#!/bin/bash
[ "$1" = -r ] && shift
host=${2%%:*} path=${2#*:}
tar -C "$(dirname "$1")" -c "$(basename "$1")" | nsenter -m -t $(cat $IDS/${host%.lab}) bash -c 'eval "path=$1"; mkdir -p "$(dirname "$path")" && rm -rf "$path" && mkdir "$path" && tar -x --strip-components=1 -C "$path"' - "$path"
`,
}
