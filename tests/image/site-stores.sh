# What docs/release.md, "With stores of your own", has a site do, on one host: its own PostgreSQL and NATS as Debian
# packages run them, a token, certificate and keys. Run by test_release.py as root of a machine with the .deb set.
set -eu
umask 077
export HOME=/root PGOPTIONS= LC_ALL=C.UTF-8

# PostgreSQL: three roles, who may be which, the database.
pg_createcluster 17 main >/dev/null
cd /etc/postgresql/17/main
{ echo 'local svc svc_owner,svc_app,svc_worker peer map=svc'; cat pg_hba.conf; } >hba && cat hba >pg_hba.conf && rm hba
printf 'svc %s %s\n' svc-pg svc_owner svc-api svc_app svc-api svc_worker >>pg_ident.conf
echo 'jit = off' >>postgresql.conf
cd /
systemctl start postgresql@17-main
runuser -u postgres -- psql -qX -v ON_ERROR_STOP=1 <<'SQL'
CREATE ROLE svc_owner LOGIN;
CREATE ROLE svc_app LOGIN;
CREATE ROLE svc_worker LOGIN;
CREATE DATABASE svc OWNER svc_owner;
REVOKE ALL ON DATABASE svc FROM PUBLIC;
GRANT CONNECT ON DATABASE svc TO svc_app, svc_worker;
SQL

# NATS: JetStream that syncs every write, and says so to the account of svc.
password=$(openssl rand -hex 16)
cat >/etc/nats-server.conf <<CONF
server_name: site
listen: "127.0.0.1:4222"
max_payload: 2MB
jetstream { store_dir: "/var/lib/nats/jetstream", sync_interval: always, max_file_store: 8GB }
system_account: SYS
accounts {
  SYS: { exports: [ { service: "\$SYS.REQ.SERVER.PING.VARZ", response_type: stream, accounts: [SVC] } ] }
  SVC: {
    jetstream: enabled
    imports: [ { service: { account: SYS, subject: "\$SYS.REQ.SERVER.PING.VARZ" } } ]
    users: [ { user: "svc", password: "$password" } ]
  }
}
CONF
chown nats:nats /etc/nats-server.conf
mkdir -p /etc/systemd/system/nats-server.service.d
printf '[Service]\nStateDirectory=nats\n' >/etc/systemd/system/nats-server.service.d/state.conf
systemctl daemon-reload
systemctl start nats-server

# The token: a vendor's module in earnest. Its folder is one that the signer's unit may write.
install -d -m 700 -o svc-signer -g svc-signer /var/lib/svc /var/lib/svc/softhsm
chmod 755 /var/lib/svc && chown root:root /var/lib/svc
printf 'directories.tokendir = /var/lib/svc/softhsm\nobjectstore.backend = file\n' >/etc/svc/softhsm2.conf
chmod 644 /etc/svc/softhsm2.conf
printf '123456\n' >/etc/svc/token.pin
chown svc-signer:svc-signer /etc/svc/token.pin
runuser -u svc-signer -- env SOFTHSM2_CONF=/etc/svc/softhsm2.conf \
    softhsm2-util --init-token --free --label site --so-pin 654321 --pin 123456 >/dev/null
mkdir -p /etc/systemd/system/svc-signer.service.d
printf '[Service]\nReadWritePaths=/var/lib/svc/softhsm\n' >/etc/systemd/system/svc-signer.service.d/token.conf
systemctl daemon-reload

# Certificate and keys of svc-api.
install -d -m 700 -o svc-api -g svc-api /var/lib/svc/api
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout /etc/svc/tls.key -out /etc/svc/tls.pem -days 30 \
    -subj /CN=site -addext subjectAltName=IP:127.0.0.1 2>/dev/null
printf 'svc:%s\n' "$password" >/etc/svc/nats.credentials
openssl rand -hex 32 | tr -d '\n' >/var/lib/svc/api/fingerprint.key
chown svc-api:svc-api /etc/svc/tls.key /etc/svc/tls.pem /etc/svc/nats.credentials /var/lib/svc/api/fingerprint.key
cat >/etc/svc/svc.yaml <<'YAML'
http: {listen: 127.0.0.1:8443, tls_certificate_file: /etc/svc/tls.pem, tls_key_file: /etc/svc/tls.key}
postgres: {url: host=/run/postgresql dbname=svc}
nats: {url: nats://127.0.0.1:4222, credentials_file: /etc/svc/nats.credentials}
token:
  module: /usr/lib/softhsm/libsofthsm2.so
  label: site
  pin_file: /etc/svc/token.pin
  environment: [SOFTHSM2_CONF=/etc/svc/softhsm2.conf]
  folders: [/var/lib/svc/softhsm]
protocols: {tsa: {clock: {trust_host: true}}}
YAML
chmod 644 /etc/svc/svc.yaml
runuser -u svc-pg -- /usr/libexec/svc/svc-api migrate --config /etc/svc/svc.yaml
