# Sourced: where the Debian 13 root of this checkout's package lists is, and the tests' peers (scripts/lib/peers-make).
# Sets top, cache, hash, root, image_hash, image_root, peers, bench_peers, browser.
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${SVC_CACHE_DIR:-/var/cache/svc}
hash=$(cat "$top"/rootfs/packages/{run,build,test}.txt "$top"/rootfs/users.txt "$top"/rootfs/customize.sh | sha256sum | cut -c1-16)
root=$cache/root-$hash
# The root that makes and tries out the appliance image: its tools, and the packages that go into the image.
image_hash=$(cat "$top"/rootfs/packages/{run,image,image-tools,kernels}.txt "$top"/rootfs/users.txt "$top"/rootfs/customize-image.sh | sha256sum | cut -c1-16)
image_root=$cache/image-root-$image_hash
peers=$cache/peers-$(cd "$top/tests/peers" && cat packages.txt build redis/redis.go tlogmem/main.go fulcio/* | sha256sum | cut -c1-16)
browser=$cache/browser-$(cat "$top"/tests/browser/package*.json | sha256sum | cut -c1-16)
bench_peers=$cache/bench-peers-$(cd "$top/tests/perf/peers" && cat packages.txt build | sha256sum | cut -c1-16)

# root_made DIR: makes it unless it is there.
root_made() {
    [ -d "$1" ] && { touch "$1" 2>/dev/null || true; return 0; }
    [ "$(id -u)" = 0 ] || { echo "$1 is not made yet: run scripts/up as root once" >&2; return 2; }
    mkdir -p "$cache"
    (
        flock 9
        [ -d "$1" ] || "$top/scripts/lib/root-make" "$1"
    ) 9>"$cache/lock"
}
root_ensure() { root_made "$root"; }
image_root_ensure() { root_made "$image_root"; }

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
