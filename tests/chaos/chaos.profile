# The load under which things are broken: every kind of work, at a pace that leaves the machine room to recover, until it
# is told to stop. Answers are waited for long: nothing here is measured.
threads 1
timeout 30
give_up 240
phase chaos clients=12 rate=90

row sign         250 sign operator
row stamp        200 stamp
row owner        250 mutation operator PUT /api/v1/credentials/key/{key}/owner {"owner_id":"team-{n}","contact":"team@example.org"}
row attest        80 mutation operator POST /api/v1/compliance/attestations {"statement":"chaos-{n}","title":"Chaos","evidence":{"locator":"chaos-{n}.pdf","sha256":"{hex}","media_type":"application/pdf"}}
row keys          60 read operator /api/v1/keys?limit=20
row records       60 read auditor /api/v1/audit/records?limit=50 pages=2
row certificates  40 read operator /api/v1/certificates?limit=50
row operations    40 read operator /api/v1/code-signing/operations?limit=20
row export         6 read auditor /api/v1/audit/export?shape=ndjson large
row pack           2 read auditor /api/v1/compliance/evidence-packs/soc2 large
