# Sourced: where the Debian 13 root of this checkout's package lists is. Sets top, cache, hash, root.
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${SVC_CACHE_DIR:-/var/cache/svc}
hash=$(cat "$top"/rootfs/packages/{run,build,test}.txt "$top"/rootfs/users.txt "$top"/rootfs/customize.sh | sha256sum | cut -c1-16)
root=$cache/root-$hash

root_ensure() {
    [ -d "$root" ] && { touch "$root" 2>/dev/null || true; return 0; }
    [ "$(id -u)" = 0 ] || { echo "the Debian 13 root is not made yet: run scripts/up as root once" >&2; return 2; }
    mkdir -p "$cache"
    (
        flock 9
        [ -d "$root" ] || "$top/scripts/lib/root-make" "$cache" "$hash"
    ) 9>"$cache/lock"
}
