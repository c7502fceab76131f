#!/bin/sh
# Runs inside a new Debian 13 root, once: users, civetweb from Debian's source archive, folders to mount on.
# Debian's own libcivetweb is built for the OpenSSL 1.1 API and dereferences NULL on the first TLS connection
# under OpenSSL 3, hence the build here (docs/decisions.md).
set -eu
grep -v '^#' /tmp/svc-rootfs/users.txt | while read -r name id _; do
    [ -n "$name" ] || continue
    groupadd --gid "$id" "$name"
    useradd --system --uid "$id" --gid "$id" --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$name"
done
mkdir -p /src /host /opt/peers /opt/browser # /opt/peers: the real peers of the tests (scripts/lib/peers-make); /opt/browser: tests/browser/node_modules

work=$(mktemp -d)
cd "$work"
apt-get -q source --tar-only civetweb
tar -xf civetweb_*.orig.tar.*
cd civetweb-*/
# CIVETWEB_MAX_REQUEST_SIZE is the size of the header block; bodies have their own limit in api/server.
cmake -S . -B out -G Ninja -Wno-dev -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_INSTALL_PREFIX=/opt/civetweb -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF -DCIVETWEB_BUILD_TESTING=OFF \
    -DCIVETWEB_ENABLE_SERVER_EXECUTABLE=OFF -DCIVETWEB_ENABLE_ASAN=OFF -DCIVETWEB_ENABLE_CXX=OFF \
    -DCIVETWEB_SSL_OPENSSL_API_3_0=ON -DCIVETWEB_SSL_OPENSSL_API_1_1=OFF \
    -DCIVETWEB_ENABLE_SSL_DYNAMIC_LOADING=OFF -DCIVETWEB_ENABLE_CGI=OFF -DCIVETWEB_SERVE_NO_FILES=ON \
    -DCIVETWEB_DISABLE_CACHING=ON -DCIVETWEB_ENABLE_DEBUG_TOOLS=OFF
cmake --build out
cmake --install out
cd /
rm -rf "$work"
