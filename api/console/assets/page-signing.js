/* Code-signing operations: the list, and one of them. Signing itself is for pipelines, and stays there. */
import { get, withQuery } from './api.js';
import { badge, choice, el, facts, field, form, hexOf, mono, table, time, words } from './dom.js';
import { commandLine, load, pages } from './parts.js';

const STATES = ['commanded', 'signed', 'completed', 'refused', 'failed'];
const KINDS = { completed: 'good', signed: 'good', refused: 'warn', failed: 'bad' };
const WHY = {
  policy_denied: 'A rule of the signing policy denies it. svc-cli code-signing policy explain says which.',
  approval_required: 'Somebody else has to approve the resource first; then the requester asks again.',
  approval_denied: 'An approver denied it.',
};

function state(operation) {
  return badge(KINDS[operation.state] ?? 'plain', operation.state);
}

export function operations(body, { signal, query, go }) {
  body.append(el('section', { class: 'card', 'aria-label': 'Filters' }, form((values) => {
    const set = Object.entries(values).filter(([, value]) => value !== '');
    go(set.length > 0 ? `/signing?${new URLSearchParams(set)}` : '/signing');
  },
  el('div', { class: 'fields' },
    field('State', choice('state', [['', 'Any'], ...STATES.map((name) => [name, words(name)])], query.state ?? '')),
    field('Signed with', choice('mode', [['', 'Any'], ['key', 'Managed key'], ['keyless', 'Keyless identity']], query.mode ?? ''))),
  el('button', { type: 'submit', class: 'main' }, 'Show'))),
  pages(signal, 'operations', async (cursor) => {
    const answer = await get(withQuery('/api/v1/code-signing/operations', { state: query.state, mode: query.mode, limit: '50', cursor }), signal);
    if (answer.items.length === 0) {
      return { count: 0, node: [el('p', {}, 'No signing operation here yet. One begins on the command line or in a pipeline:'),
        commandLine('svc-cli code-signing sign FILE --key KEY_ID -o FILE.sig')] };
    }
    return { count: answer.items.length, next: answer.next_cursor, node: table('Signing operations',
      ['Asked for', 'State', 'Artifact', 'By', 'Operation'],
      answer.items.map((item) => [time(item.created_at), state(item), item.artifact_type ?? '–', item.principal ?? '–',
        el('a', { href: `#/signing/${item.operation_id}` }, mono(item.operation_id))])) };
  }));
}

function transparency(entry) {
  return entry ? facts(Object.entries(entry).map(([name, value]) => [words(name), typeof value === 'object' ? mono(JSON.stringify(value)) : mono(value)])) : null;
}

export function operation(body, { signal, rest }) {
  const place = el('div');
  body.append(el('p', {}, el('a', { href: '#/signing' }, 'All operations')), place);
  load(place, signal, 'the operation', async () => {
    const it = await get(`/api/v1/code-signing/operations/${encodeURIComponent(rest)}`, signal);
    const known = (name, value) => (value === undefined || value === null ? null : [name, value]);
    return el('section', { class: 'card' }, el('h2', {}, 'Operation ', mono(it.operation_id)), facts([
      ['State', state(it)],
      known('Why', it.failure_code && [mono(it.failure_code), ' ', WHY[it.failure_code] ?? '']),
      known('Waits for the approval of', it.resource && mono(it.resource)),
      ['Asked for', time(it.created_at)],
      known('Ended', it.ended_at && time(it.ended_at)),
      known('By', it.principal),
      known('Artifact', it.artifact_type),
      known('Signed with', it.mode === 'keyless' ? 'a key made for this one signature' : 'a managed key'),
      known('Key', it.key_id && mono(it.key_id)),
      known('Identity', it.fulcio_san && mono(it.fulcio_san)),
      known('Issuer of the identity', it.fulcio_issuer && mono(it.fulcio_issuer)),
      known('Algorithm', it.algorithm),
      known('Approved mode', it.approved_mode === undefined ? null : (it.approved_mode ? 'yes' : 'no: outside approved mode')),
      known(`Digest (${it.digest_algorithm ?? ''}, hex)`, it.digest && mono(hexOf(it.digest))),
      known('Signature (base64)', it.signature && mono(it.signature)),
      known('Transparency log', it.transparency_destination === 'none' ? 'none configured' : it.transparency_destination),
    ]), transparency(it.transparency));
  });
}
