#!/usr/bin/env bash
# The user's way, outside the root: scripts/up --detach does the main job, scripts/svc-cli works from another folder,
# a second up says that one runs, scripts/down stops it and leaves nothing behind.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
top=$PWD passed=0 failed=0
data=$(mktemp -d /tmp/svc-up.XXXXXX)
export SVC_UP_DIR=${SVC_UP_DIR:-}
mkdir -p build/test-results
ok() { passed=$((passed + 1)); printf '   ok: %s\n' "$1"; }
bad() { failed=$((failed + 1)); printf -- '-- %s\n' "$1"; [ -z "${2:-}" ] || tail -n 40 "$2"; }
is() { local name=$1; shift; if "$@" >"$data/log" 2>&1; then ok "$name"; else bad "$name" "$data/log"; fi; }
finish() {
    scripts/down >/dev/null 2>&1
    rm -rf "$data"
    printf '%s %s\n' "$passed" "$failed" >build/test-results/up.count
    [ "$failed" -eq 0 ]
    exit
}
trap 'finish' EXIT

scripts/down >/dev/null 2>&1
head -c 100000 /dev/urandom >"$data/artifact file"
if scripts/up --detach --sign "$data/artifact file" >"$data/up.log" 2>&1; then ok "scripts/up --detach"; else bad "scripts/up --detach" "$data/up.log"; exit; fi
is "the main job says that it verified" grep -Eiq 'verified' "$data/up.log"
is "client.env is 0600" test "$(stat -c %a var/embedded/client.env)" = 600
for name in SVC_BASE_URL SVC_CA_FILE SVC_TOKEN SVC_TOKEN_ADMIN SVC_TOKEN_OPERATOR SVC_TOKEN_APPROVER SVC_TOKEN_CI \
    SVC_TOKEN_AUDITOR SVC_TENANT SVC_TSA_URL SVC_TSA_ROOT; do
    is "client.env has $name" bash -c "set -a; . var/embedded/client.env; [ -n \"\${$name:-}\" ]"
done
cd "$data" || exit 1
is "svc-cli from another folder, relative file" "$top/scripts/svc-cli" tsa stamp "artifact file" -o artifact.tsr
is "the stamp is there" test -s artifact.tsr
is "svc-cli verifies offline" bash -c ". '$top/var/embedded/client.env'; '$top/scripts/svc-cli' tsa verify 'artifact file' --token artifact.tsr --root \"\$SVC_TSA_ROOT\""
is "an explicit SVC_TOKEN wins" bash -c "! SVC_TOKEN=svc_default_nothing '$top/scripts/svc-cli' keys list"
cd "$top" || exit 1
if scripts/up --detach >"$data/second.log" 2>&1; then bad "a second up while one runs must not start" "$data/second.log"; else ok "a second up is refused"; fi
is "and says why" grep -Eiq 'already|running' "$data/second.log"
is "scripts/down" scripts/down
is "nothing of it runs any more" flock -n var/embedded/.alive true
