#!/usr/bin/env bash
# Jobs that bring their own root. An image is made of this machine's programs, without
# any daemon, and pushed to a registry that the demonstration starts. A job runs in it on
# two nodes at once; another one counts in its memory, is saved, and moves to the other
# node. Then only signed images are allowed: one without a signature is refused, and one
# with it runs. At the end, what a start from the cache costs beside one without an image.
# Exits 0 only if all of this worked. Needs root, and a CRIU that works here (make setup
# installs one).
set -euo pipefail

# shellcheck source=contrib/demo-lib.sh
. "$(dirname "$0")/demo-lib.sh"
begin demo-image

registry=$root/.build/registry
counted() { tail -n 1 "$work/count.out" 2>/dev/null || true; }
counted_to() { [ "$(counted)" -ge "$1" ]; }
runs_on() { [ "$(gqueue --noheader --states=R --jobs="$1" --format=%N)" = "$2" ]; }
no_gap() { awk '$1 != NR { exit 1 }' "$work/count.out"; }

step "starting a registry on this machine"
"$registry" serve 127.0.0.1:0 > "$directory/registry" &
server=$!
trap 'kill $server 2>/dev/null || true; clean_up' EXIT
until_true 10 test -s "$directory/registry" || fail "the registry does not start"
at=$(cat "$directory/registry")
echo "   $at"

step "making an image of this machine's programs, and pushing it"
"$registry" push "$at/lab/tools:1" -e GREETING=hello -w /root sh bash cat ls id sleep hostname uname | sed 's/^/   /'

step "starting a cluster of two nodes in $directory"
start_cluster --nodes 2 --gpus-per-node 0 --cpus-per-node 2
ginfo

step "a job of two nodes in it"
cd "$work"
gsubmit --wait --nodes=2 --image="$at/lab/tools:1" --output=two.out --wrap 'cat /etc/os-release; grun --label sh -c "echo \$GREETING from \$(hostname)"' || true
sed 's/^/   /' two.out
check "its root is the image's" grep -q '^ID=demo$' two.out
check "it ran on n1" grep -q 'hello from n1' two.out
check "it ran on n2" grep -q 'hello from n2' two.out

step "a job that counts in its memory moves to the other node"
job=$(gsubmit --parsable --image="$at/lab/tools:1" --output=count.out --wrap 'i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo $i; sleep 0.05; done')
until_true 60 counted_to 20 || fail "it does not count: $(gcontrol show job "$job" | grep -E 'JobState|Reason')"
home=$(gqueue --noheader --jobs="$job" --format=%N)
other=$([ "$home" = n1 ] && echo n2 || echo n1)
gcontrol migrate "$job" "$other" || fail "it did not move"
check "it runs on $other" runs_on "$job" "$other"
before=$(counted)
until_true 30 counted_to $((before + 20)) || true
check "it counts on, without a gap" no_gap
check "gcontrol show job names the image by its digest" grep -q "Container=docker://$at/lab/tools:1@sha256:" <(gcontrol show job "$job")
gcancel "$job"

step "files are staged in and out through S3"
"$registry" bucket > "$directory/bucket" &
bucket=$!
trap 'kill $server $bucket 2>/dev/null || true; clean_up' EXIT
until_true 10 test -s "$directory/bucket" || fail "the server of the bucket does not start"
read -r AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY < "$directory/bucket"
export AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
gsubmit --wait --image="$at/lab/tools:1" --tmp=40M --mem=64M --stage-out=/tmp/model:s3://images/run/model --wrap 'echo weights > /tmp/model' || true
job=$(gsubmit --parsable --image="$at/lab/tools:1" --tmp=40M --mem=64M --output=staged.out --stage-in=s3://images/run/:/tmp/in --wrap 'cat /tmp/in/model')
until_true 60 state_is "$job" COMPLETED || gcontrol show job "$job" | grep ReasonDetail || true
check "what one job wrote the other reads" grep -qx weights staged.out

step "only signed images from now on"
"$registry" push "$at/lab/signed:1" sh id | sed 's/^/   /'
"$registry" sign "$at/lab/signed:1" cosign.pub
cat > rules.toml <<END
[[partition]]
name = "main"
default = true
allow_root_jobs = true

[[images.signed]]
images = ["**"]
keys = ["""
$(cat cosign.pub)
"""]
END
gcontrol apply --yes -f rules.toml
job=$(gsubmit --parsable --image="$at/lab/tools:1" --wrap true)
until_true 30 state_is "$job" FAILED || true
gcontrol show job "$job" | grep ReasonDetail || true
check "without a signature it is refused" state_is "$job" FAILED
job=$(gsubmit --parsable --image="$at/lab/signed:1" --output=signed.out --wrap id)
until_true 30 state_is "$job" COMPLETED || true
check "with it it runs" grep -q '^uid=' signed.out

step "what a start from the cache costs"
# started OPTION...: milliseconds from the submission until the script's first command.
started() {
	local begin
	begin=$(now)
	rm -f at.out
	gsubmit --wait -Q --output=at.out "$@" --wrap 'read up idle < /proc/uptime; echo "$up"' || true
	echo $(($(now) - begin))
}
for round in 1 2 3 4 5 6 7 8 9 10 11; do
	started >> plain
	started --image="$at/lab/signed:1" >> image
done
median() { sort -n "$1" | sed -n 6p; }
echo "   without image: $(median plain) ms, with image: $(median image) ms (medians of 11, from submission to the end)"

step "ending the cluster"
