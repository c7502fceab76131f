# What a busy day of several tenants looks like, pressed into minutes: signings and time stamps, small changes, people
# and tools that look, an export now and then, an evidence pack hardly ever. Weights are parts of 1000.
threads 2
timeout 60
give_up 120
phase warm-up   for=5  clients=8
phase realistic for=30 clients=16 rate=150
phase peak      for=20 clients=32

row sign         150 sign operator
row stamp        250 stamp
row owner        150 mutation operator PUT /api/v1/credentials/key/{key}/owner {"owner_id":"team-{n}","contact":"team@example.org"}
row attest        50 mutation operator POST /api/v1/compliance/attestations {"statement":"load-{n}","title":"Load","evidence":{"locator":"load-{n}.pdf","sha256":"{hex}","media_type":"application/pdf"}}
row keys         110 read operator /api/v1/keys?limit=50
row key           80 read operator /api/v1/keys/{key}
row certificates  60 read operator /api/v1/certificates?limit=50 pages=2
row credentials   40 read auditor /api/v1/credentials?limit=50
row operations    40 read operator /api/v1/code-signing/operations?limit=50
row records       50 read auditor /api/v1/audit/records?limit=100 pages=3
row head          10 read auditor /api/v1/audit/head
row readiness      5 read auditor /api/v1/graph/crypto-readiness
row export         3 read auditor /api/v1/audit/export?shape=ndjson large
row pack           2 read auditor /api/v1/compliance/evidence-packs/soc2 large
