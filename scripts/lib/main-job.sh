# Sourced by scripts/up: the main job, one line for each step. Uses top, root, data, file and step of scripts/up.

# What it has to say beside its answer is shown only when it fails.
cli() {
    local said=$data/log/main-job.err
    SVC_CLIENT_ENV="$data/client.env" "$top/scripts/svc-cli" "$@" 2>"$said" || { cat "$said" >&2; return 1; }
}
# A program of the Debian root, on this machine's files.
rooted() {
    local libs=$root/usr/lib/x86_64-linux-gnu program=$1
    shift
    env -u LD_PRELOAD -u LD_LIBRARY_PATH "$root/lib64/ld-linux-x86-64.so.2" --library-path "$libs" "$root/usr/bin/$program" "$@"
}

# The id of the active code-signing key named "release": made once, found again afterwards.
release_key() {
    local find='[.. | objects | select(.name? == "release" and .purpose? == "codesign" and .state? == "active")][0] | (.key_id // .id) // empty'
    key_id=$(cli keys list --json | rooted jq -r "$find") || return 1
    if [ -n "$key_id" ]; then
        step key "release: $key_id (from an earlier run)"
        return 0
    fi
    key_id=$(cli keys create --name release --algorithm ec-p256 --purpose codesign --json | rooted jq -er ".key_id // .id") || return 1
    [ -n "$key_id" ] && step key "release: $key_id (ECDSA P-256, made inside the token)"
}

sign_file() {
    local digest
    digest=$(sha256sum <"$file" | cut -d' ' -f1) || return 1
    cli code-signing preview "$file" --key "$key_id" --json >"$made.preview.json" || return 1
    step preview "$file, SHA-256 ${digest:0:16}..., nothing signed yet: $made.preview.json"
    cli code-signing sign "$file" --key "$key_id" -o "$made.sig" --yes --json >"$made.receipt.json" || return 1
    rooted jq -er .public_key_der "$made.receipt.json" | base64 -d >"$made.pub.der" || return 1
    step sign "$made.sig (receipt $made.receipt.json)"
}

main_job() {
    local out=$data/out
    : "${file:=$top/build/release/bin/svc-signer}"
    made=$out/$(basename "$file")
    release_key || return 1
    sign_file || return 1
    cli tsa stamp "$made.sig" -o "$made.sig.tsr" >/dev/null || return 1
    step stamp "$made.sig.tsr (RFC 3161, over the signature)"
    cli --as auditor audit export -o "$out/audit.jws" >/dev/null || return 1
    cli --as auditor audit verification-keys -o "$out/audit-keys.json" >/dev/null || return 1
    step audit "$out/audit.jws, keys to verify it with: $out/audit-keys.json"
    # From here on nothing is asked of the appliance.
    cli code-signing verify "$file" --signature "$made.sig" --public-key "$made.pub.der" >/dev/null || return 1
    step verify "signature verified offline with $made.pub.der"
    cli tsa verify "$made.sig" --token "$made.sig.tsr" --root "$data/tsa-root.pem" >/dev/null || return 1
    step verify "time stamp verified offline with $data/tsa-root.pem"
    cli audit verify --artifact "$out/audit.jws" --audit-jwks "$out/audit-keys.json" --tsa-root "$data/tsa-root.pem" \
        >/dev/null || return 1
    step verify "audit export verified offline: every record's hash, the signature and the time stamp over the chain's head"
}

hints() {
    local cli=scripts/svc-cli
    [ "$data" = "$top/var/embedded" ] || cli="SVC_CLIENT_ENV=$(printf '%q' "$data/client.env") scripts/svc-cli"
    cat <<EOF
Try, in $top:
  $cli code-signing sign README.md --key $key_id -o /tmp/README.md.sig --yes
  $cli tsa stamp README.md -o /tmp/README.md.tsr
  $cli --as auditor audit records
EOF
}
