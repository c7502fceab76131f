# Sourced: where the Debian 13 root of this checkout's package lists is, and the tests' peers (scripts/lib/peers-make).
# Sets top, cache, hash, root, peers, bench_peers, browser.
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${SVC_CACHE_DIR:-/var/cache/svc}
hash=$(cat "$top"/rootfs/packages/{run,build,test}.txt "$top"/rootfs/users.txt "$top"/rootfs/customize.sh | sha256sum | cut -c1-16)
root=$cache/root-$hash
peers=$cache/peers-$(cd "$top/tests/peers" && cat packages.txt build redis/redis.go tlogmem/main.go fulcio/* | sha256sum | cut -c1-16)
browser=$cache/browser-$(cat "$top"/tests/browser/package*.json | sha256sum | cut -c1-16)
bench_peers=$cache/bench-peers-$(cd "$top/tests/perf/peers" && cat packages.txt build | sha256sum | cut -c1-16)

root_ensure() {
    [ -d "$root" ] && { touch "$root" 2>/dev/null || true; return 0; }
    [ "$(id -u)" = 0 ] || { echo "the Debian 13 root is not made yet: run scripts/up as root once" >&2; return 2; }
    mkdir -p "$cache"
    (
        flock 9
        [ -d "$root" ] || "$top/scripts/lib/root-make" "$cache" "$hash"
    ) 9>"$cache/lock"
}

# built_ensure DIR SOURCE
built_ensure() {
    [ -d "$1" ] && { touch "$1" 2>/dev/null || true; return 0; }
    root_ensure || return
    (
        flock 9
        [ -d "$1" ] || "$top/scripts/lib/peers-make" "$1" "$2"
    ) 9>"$cache/lock"
}

# The programs of others that tests and benchmarks run beside ours, seen as /opt/peers by every later scripts/enter.
peers_ensure() { built_ensure "$peers" tests/peers; }
# Those that only scripts/bench wants.
bench_peers_ensure() { built_ensure "$bench_peers" tests/perf/peers; }

# What drives Chromium in the console's tests: npm's packages of tests/browser, seen as /opt/browser/node_modules.
browser_ensure() {
    [ -d "$browser" ] && { touch "$browser" 2>/dev/null || true; return 0; }
    root_ensure || return
    (
        flock 9
        [ -d "$browser" ] || "$top/scripts/lib/browser-make" "$browser"
    ) 9>"$cache/lock"
}
