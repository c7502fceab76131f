/* The time-stamping authority of this tenant: may one rely on it, with what does it stamp, and how does one use it. */
import { ask, get } from './api.js';
import { badge, el, facts, mono, section, table, time, words } from './dom.js';
import { commandLine, loading, notice } from './parts.js';

const KINDS = { active: 'good', certified: 'plain', prepared: 'plain', retired: 'plain' };

function qualification(answer) {
  return [
    notice(answer.ready ? 'good' : 'bad', answer.ready ? 'Every condition is met' : 'Not to be relied on as it stands',
      answer.unmet.length > 0 ? el('ul', {}, answer.unmet.map((it) => el('li', {}, el('strong', {}, words(it.condition)), `: ${it.explanation} `, el('em', {}, `What to do: ${it.recovery}`)))) : null),
    answer.notices.map((text) => notice('warn', 'Good to know', el('p', {}, text))),
    facts([
      ...Object.entries(answer.conditions).map(([name, met]) => [words(name), badge(met ? 'good' : 'bad', met ? 'met' : 'not met')]),
      ['Default policy', answer.policy_oid ? mono(answer.policy_oid) : '–'],
      ['The clock is vouched for by', answer.clock ? words(answer.clock) : '–'],
    ]),
  ];
}

function units(items) {
  return items.length === 0 ? el('p', {}, 'This tenant has no time-stamping unit.') : table('Time-stamping units',
    ['Number', 'State', 'Algorithm', 'Certificate', 'Stamps until', 'Unit'],
    items.map((unit) => [String(unit.number), badge(KINDS[unit.state] ?? 'warn', unit.state), unit.algorithm,
      unit.not_after ? ['to ', time(unit.not_after)] : 'none yet', time(unit.key_usage_end), mono(unit.unit_id)]));
}

function usage(endpoint) {
  const url = endpoint ?? `${location.origin}/tsa`;
  return section('How to stamp',
    el('p', {}, 'The file stays with you; its digest is all that is sent. No token is needed.'),
    commandLine(`svc-cli tsa stamp FILE --url ${url} -o FILE.tsr`),
    el('p', {}, 'Or with OpenSSL and curl:'),
    commandLine('openssl ts -query -data FILE -sha256 -cert -out FILE.tsq'),
    commandLine(`curl --cacert ca.pem -H 'Content-Type: application/timestamp-query' --data-binary @FILE.tsq ${url} -o FILE.tsr`),
    el('p', {}, 'Verify, offline, against the root that you pinned:'),
    commandLine('svc-cli tsa verify FILE --token FILE.tsr --root tsa-root.pem'),
    el('p', {}, el('a', { href: '/tsa/chain.pem', download: 'tsa-chain.pem' }, 'Certificate chain (PEM)'), '; its last certificate is the root. Signing tools that take no https: ',
      el('a', { href: '/tsa' }, 'the page of the authority'), '.'));
}

export function tsa(body, { signal }) {
  body.append(
    loading(signal, 'Qualification', async () => qualification(await ask('/api/v1/protocols/tsa/qualification', undefined, signal))),
    loading(signal, 'Units', async () => units((await get('/api/v1/protocols/tsa/units', signal)).items)),
    usage(null));
}
