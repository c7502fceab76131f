/* The whole trail, or a range of it, as one signed file; and how to check that file elsewhere. */
import { download, withQuery } from './api.js';
import { announce, button, choice, el, facts, field, fill, form, mono, section, size } from './dom.js';
import { busy, commandLine, notice, progress, save, sha256Hex } from './parts.js';

const SHAPES = [
  ['jws', 'JWS: one signed bundle, for verification'],
  ['ndjson', 'NDJSON: one JSON record a line'],
  ['csv', 'CSV: for a spreadsheet'],
  ['cef', 'CEF: for a log collector'],
  ['ocsf', 'OCSF: for a security lake'],
];
const HASHED_MAX = 256 << 20; /* the browser can hash only what is in memory as a whole */

async function keep(trigger, place, path, name, what) {
  await busy(trigger, place, async () => {
    const shown = progress(what);
    fill(place, shown.node);
    announce(`Download of ${what} began`);
    try {
      const file = await download(path, { onProgress: shown.show, signal: shown.signal });
      const saved = name ?? file.name ?? 'audit-export';
      save(file.blob, saved);
      fill(place);
      announce(`${saved} is saved, ${size(file.size)}`);
      return await done(place, saved, file);
    } catch (problem) {
      fill(place, problem.name === 'AbortError' ? notice('plain', 'Cancelled', el('p', {}, 'Nothing was saved.')) : null);
      throw problem;
    }
  });
}

async function done(place, name, file) {
  fill(place, notice('good', `${name} is saved`, facts([
    ['Size', size(file.size)],
    ['SHA-256', file.size <= HASHED_MAX ? mono(await sha256Hex(file.blob)) : mono(`sha256sum ${name}`)],
  ])), /^audit-\d/.test(name) ? [
    el('p', {}, 'Verify it, on a machine that you trust:'),
    commandLine(`svc-cli audit verify --artifact ${name} --audit-jwks audit.jwks --tsa-root tsa-chain.pem`),
  ] : null);
}

export function exports(body) {
  const place = el('div'), keys = el('div');
  const submit = el('button', { type: 'submit', class: 'main' }, 'Download');
  const number = (name) => el('input', { name, type: 'number', min: '1', step: '1', inputmode: 'numeric' });
  const moment = (name) => el('input', { name, type: 'datetime-local', step: '1' });
  body.append(section('Signed export',
    el('p', {}, 'Every record with the head of their hash chain, signed by the audit-export key. The export itself is recorded.'),
    form((values) => keep(submit, place, withQuery('/api/v1/audit/export', {
      ...values,
      from: values.from && new Date(`${values.from}Z`).toISOString(),
      to: values.to && new Date(`${values.to}Z`).toISOString(),
    }), null, 'the export'),
    field('Shape', choice('shape', SHAPES, 'jws')),
    el('fieldset', {}, el('legend', {}, 'Range (empty: all)'), el('div', { class: 'fields' },
      field('First sequence', number('from_sequence')), field('Last sequence', number('to_sequence')),
      field('From (UTC)', moment('from')), field('Before (UTC)', moment('to')))),
    submit), place),
  section('What it is verified with',
    el('p', {}, 'Get these once, compare them by another way, and keep them apart from the exports: an export and its keys from one hand prove nothing.'),
    el('div', { class: 'row' },
      button('Verification keys', (event) => keep(event.target, keys, '/api/v1/audit/verification-keys', 'audit.jwks', 'the keys')),
      button('Time-stamp chain', (event) => keep(event.target, keys, '/tsa/chain.pem', 'tsa-chain.pem', 'the chain'))),
    keys,
    el('p', {}, 'The root to pin is the last certificate of the chain. The same with svc-cli:'),
    commandLine('svc-cli audit verification-keys -o audit.jwks'),
    commandLine('svc-cli tsa chain -o tsa-chain.pem')));
}
