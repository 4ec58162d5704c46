# What clean-root.sh types in the clean Debian, as root.
set -euo pipefail

say() { echo "packages: $*"; }
fail() { echo "packages: FAILED: $*" >&2; tail -n 20 /run/*.log >&2 2>/dev/null || true; exit 1; }
must() { "$@" || fail "$*"; }
# await SECONDS WORDS COMMAND...: until the command succeeds.
await() {
	local until=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $until ] || fail "$what"
		sleep 0.2
	done
}
installed() { dpkg-query -W -f '${Version}' "$1"; }
job_is() { [ "$(as_ann gqueue -h -t all -o %T -j "$1")" = "$2" ]; }
as_ann() { setpriv --reuid ann --regid ann --init-groups env -C /home/ann HOME=/home/ann "$@"; }
debs() { echo /debs/gleaner-{client,ctld,node}_"$1"_*.deb; }
apt() { apt-get -qq -y --no-install-recommends --allow-downgrades -o Dpkg::Use-Pty=0 "$@" || fail "apt-get $*"; }

useradd --create-home ann

say "without systemd the packages install, start nothing and say nothing"
apt install $(debs 1.0) >/run/installed 2>&1
! grep -i 'error\|warning\|failed' /run/installed || fail "the installation complains"
[ ! -e /run/gctld.pid ] || fail "the installation started gctld"
[ "$(getent passwd gleaner | cut -d: -f 6,7)" = /nonexistent:/usr/sbin/nologin ] || fail "the user gleaner: $(getent passwd gleaner)"
[ "$(stat -c %U:%a /var/backups/gleaner)" = gleaner:700 ] || fail "backups belong to $(stat -c %U:%a /var/backups/gleaner)"
gleaner setup 2>/run/refused && fail "gleaner setup went on without systemd"
grep -q 'systemd does not run here' /run/refused || fail "$(cat /run/refused)"

say "one more command makes a cluster"
mkdir -p /run/systemd/system
must gleaner setup
must as_ann gsubmit --wait --output=out.txt --wrap 'echo from $(hostname)'
[ "$(cat /home/ann/out.txt)" = "from clean" ] || fail "the job printed $(cat /home/ann/out.txt)"
gcontrol show config | grep -q '^DefMemPerCPU.*2048' || gcontrol show partition main | grep -q 'DefMemPerCPU=2048' || fail "the policy of cluster.toml is not in force"
must gleaner setup >/run/again # nothing happens
for command in sbatch squeue; do [ -x /usr/lib/gleaner/slurm/$command ] || fail "there is no $command"; done

say "an upgrade lets a job run on, and keeps what the administrator changed"
echo '# mine' >>/etc/gleaner/gctld.toml
job=$(as_ann gsubmit --parsable --output=long.txt --wrap 'while [ ! -e go ]; do sleep 0.1; done; echo went on')
await 30 "job $job runs" job_is $job RUNNING
before=$(cat /run/gnoded.pid)
apt install $(debs 1.1) >/dev/null
[ "$(installed gleaner-node)" = 1.1 ] || fail "gleaner-node is $(installed gleaner-node)"
[ "$(cat /run/gnoded.pid)" != "$before" ] || fail "gnoded was not restarted"
await 60 "the node is back" sh -c 'ginfo -h -o %t | grep -q mix'
must job_is $job RUNNING
grep -q '^# mine' /etc/gleaner/gctld.toml || fail "the upgrade lost a change of gctld.toml"

say "so does a downgrade"
apt install $(debs 1.0) >/dev/null
[ "$(installed gleaner-ctld)" = 1.0 ] || fail "gleaner-ctld is $(installed gleaner-ctld)"
await 60 "the node is back" sh -c 'ginfo -h -o %t | grep -q mix'
must job_is $job RUNNING
touch /home/ann/go
await 30 "job $job ends" job_is $job COMPLETED
[ "$(cat /home/ann/long.txt)" = "went on" ] || fail "the job printed $(cat /home/ann/long.txt)"
grep -q '^# mine' /etc/gleaner/gctld.toml || fail "the downgrade lost a change of gctld.toml"

say "removed, they leave state and configuration; jobs end"
long=$(as_ann gsubmit --parsable --output=/dev/null --wrap 'sleep 1000')
await 30 "job $long runs" job_is $long RUNNING
apt remove gleaner-node gleaner-ctld gleaner-client >/dev/null
! pgrep -f 'sleep 1000' >/dev/null 2>&1 || fail "a job was left"
[ ! -e /run/gctld.pid ] && [ ! -e /run/gnoded.pid ] || fail "a daemon was left"
[ -d /var/lib/gleaner/ctld ] && [ -e /etc/gleaner/gctld.toml ] || fail "state or configuration was lost"

say "installed again, the cluster is what it was"
apt install $(debs 1.1) >/dev/null
must gleaner setup >/dev/null
[ "$(as_ann gsubmit --parsable --wrap true)" -gt "$long" ] || fail "job numbers began anew"

say "purged, nothing is left but the user and backups"
apt purge gleaner-node gleaner-ctld gleaner-client >/dev/null
left=$(find /etc /usr /lib /var -path /var/lib/dpkg -prune -o -path /var/cache -prune -o -path /var/log -prune -o -name '*gleaner*' -print -o -name 'gctld*' -print -o -name 'gnoded*' -print)
[ -z "$left" ] || [ "$left" = /var/backups/gleaner ] || fail "left: $left"
! grep gleaner /proc/self/mountinfo || fail "something is mounted"
say "all passed"
