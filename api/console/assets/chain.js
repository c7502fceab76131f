/* The audit chain, recomputed here: docs/audit-verification.md has the rule. It shows that what the appliance has just
 * handed out agrees with itself. Proof is the offline verification with pinned keys. */
import { get, getText } from './api.js';
import { badge, el, facts, fill, mono, time } from './dom.js';
import { busy, commandLine } from './parts.js';

const DOMAIN = new TextEncoder().encode('svc.audit.chain.v1\0');

/* RFC 8785: members in the order of their UTF-16 units, everything else as JSON.stringify prints it. */
export function canonical(value) {
  if (Array.isArray(value)) {
    return `[${value.map(canonical).join(',')}]`;
  }
  if (value !== null && typeof value === 'object') {
    return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(',')}}`;
  }
  return JSON.stringify(value);
}

function bytesOf(hex) {
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/* chain(n) = SHA-256(domain, chain(n-1), record n) */
async function next(chain, record) {
  const bytes = await new Blob([DOMAIN, bytesOf(chain), canonical(record)]).arrayBuffer();
  const digest = await crypto.subtle.digest('SHA-256', bytes);
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/* rows: as GET /api/v1/audit/records gives them, in either order. { links, broken: sequence or null }: a link is a record
 * whose predecessor is among the rows. */
export async function checkLinks(rows) {
  const sorted = rows.toSorted((a, b) => a.record.sequence - b.record.sequence);
  let links = 0;
  for (let i = 0; i < sorted.length; i++) {
    const { record, chain } = sorted[i];
    const first = record.sequence === 1;
    if (!first && sorted[i - 1]?.record.sequence !== record.sequence - 1) {
      continue;
    }
    if (await next(first ? '00'.repeat(32) : sorted[i - 1].chain, record) !== chain) {
      return { links, broken: record.sequence };
    }
    links++;
  }
  return { links, broken: null };
}

function fromBase64url(text) {
  return Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
}

/* Does one of the keys that the appliance publishes verify this compact JWS (ES256)? */
async function verifies(jws, keys) {
  const [head, payload, signature] = jws.split('.');
  const { alg, kid } = JSON.parse(new TextDecoder().decode(fromBase64url(head)));
  const jwk = keys.find((key) => key.kid === kid);
  if (alg !== 'ES256' || jwk === undefined) {
    return false;
  }
  const curve = { name: 'ECDSA', namedCurve: 'P-256' };
  const key = await crypto.subtle.importKey('jwk', { kty: jwk.kty, crv: jwk.crv, x: jwk.x, y: jwk.y }, curve, false, ['verify']);
  return crypto.subtle.verify({ name: 'ECDSA', hash: 'SHA-256' }, key, fromBase64url(signature), new TextEncoder().encode(`${head}.${payload}`));
}

/* Fetches the signed head, which the appliance stamps and signs for the asking. */
export async function signedHead(trigger, place) {
  await busy(trigger, place, async () => {
    const jws = (await getText('/api/v1/audit/head')).trim();
    const { keys } = await get('/api/v1/audit/verification-keys');
    const good = await verifies(jws, keys);
    const head = JSON.parse(new TextDecoder().decode(fromBase64url(jws.split('.')[1])));
    fill(place, facts([
      ['Signature', badge(good ? 'good' : 'bad', good ? 'verifies under the published key' : 'does not verify under a published key')],
      ['Records', String(head.sequence)],
      ['Chain head', mono(head.chain_head)],
      ['Merkle root', mono(head.tree_root)],
      ['Generation of the history', String(head.generation)],
      ['Signed', time(head.time)],
      ['Time stamp over the chain head', head.timestamp ? 'yes' : 'no'],
    ]), el('p', {}, 'Key and head come from the same appliance. To rely on it, keep the head and check it at home with keys that you pinned:'),
    commandLine('svc-cli audit head -o head.jws'));
  });
}
