#!/bin/sh
# Runs inside a new image root, once, with packages/ beside it: fetches what goes into the image, as packages and never
# installed here. An empty dpkg status makes apt name every package that the image needs.
set -eu
here=/tmp/svc-rootfs
cache=/var/cache/svc-image
mkdir -p "$cache/debs/partial" /src /host /opt/peers /opt/browser
words() { grep -hv '^#' "$@" | sort -u; }
fetch() { # fetch DIR PACKAGE...: with all that they depend on
    dir=$1
    shift
    mkdir -p "$dir/partial"
    apt-get -qq -y -d -o Dir::State::status=/dev/null -o Dir::Cache::archives="$dir" -o Debug::NoLocking=1 \
        -o APT::Install-Recommends=false -o APT::Sandbox::User=root -o APT::Keep-Downloaded-Packages=true install "$@"
    rm -rf "$dir/partial" "$dir/lock"
}
fetch "$cache/debs" $(words $here/run.txt $here/image.txt)
words $here/kernels.txt | while read -r profile package; do
    mkdir -p "$cache/kernel-$profile"
    real=$(apt-cache depends "$package" | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    (cd "$cache/kernel-$profile" && apt-get -qq -o APT::Sandbox::User=root download "$real")
done
(cd "$cache" && sha256sum -- */*.deb | LC_ALL=C sort -k2 >packages.sha256)
