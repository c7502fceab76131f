/* Evidence packs: choose a framework, have its pack made, read what is evidenced and what is missing, take it along. The
 * file that is saved is the answer byte for byte; what is shown here is read from its signed manifest's copy. */
import { download } from './api.js';
import { announce, badge, button, el, facts, fill, mono, more, section, size, table, time, words } from './dom.js';
import { busy, commandLine, notice, progress, save, sha256Hex } from './parts.js';

export const FRAMEWORKS = [
  ['soc2', 'SOC 2'],
  ['nist-800-53', 'NIST SP 800-53'],
  ['nist-csf-2.0', 'NIST CSF 2.0'],
  ['fedramp', 'FedRAMP'],
  ['cmmc-2.0', 'CMMC 2.0'],
  ['pci-dss', 'PCI DSS'],
  ['hipaa', 'HIPAA Security Rule'],
  ['cnsa-2.0', 'CNSA 2.0'],
  ['fips-140', 'FIPS 140'],
  ['common-criteria', 'Common Criteria'],
  ['cabf-br', 'CA/Browser Forum BR'],
  ['webtrust', 'WebTrust'],
  ['etsi', 'ETSI'],
  ['eidas', 'eIDAS'],
  ['nis2', 'NIS 2'],
];

export function frameworkName(id) {
  return FRAMEWORKS.find(([known]) => known === id)?.[1] ?? id;
}

/* ---- one pack ---- */

function state(word) {
  return badge(word === 'met' || word === 'evidenced' ? 'good' : 'warn', word);
}

function reference(it) {
  if (it.object !== undefined) {
    return el('li', {}, mono(it.object), ', as of ', time(it.snapshot_at));
  }
  return el('li', {}, `${it.type}, record ${it.sequence}, `, time(it.observed_at), ', event ', mono(it.event_id),
    it.evidence_sha256 ? [', evidence SHA-256 ', mono(it.evidence_sha256)] : null);
}

/* What a count rests on: total = matched + each of the excluded. */
function population(it) {
  if (!it) {
    return null;
  }
  const left = it.excluded.map(({ reason, count }) => `${count} ${reason}`).join(', ');
  return facts([
    ['Asked', it.query],
    ['Looked at', `${it.total}, of which ${it.matched} count${left ? `; left out: ${left}` : ''}`],
  ]);
}

function prerequisite(it, missing) {
  return el('li', { class: 'prerequisite' },
    el('p', {}, state(it.state), ' ', el('strong', {}, it.title ?? words(it.name)), ' ', mono(it.name)),
    el('p', {}, it.why),
    missing ? el('p', {}, el('strong', {}, 'What to do: '), missing.recovery) : null,
    more('What was looked at', population(it.population), it.window ? facts([['Window', [time(it.window.from), ' to ', time(it.window.to)]]]) : null,
      it.references?.length > 0 ? el('ul', {}, it.references.map(reference)) : el('p', {}, 'No reference.')));
}

function control(it) {
  const missing = new Map(it.missing_prerequisites.map((one) => [one.name, one]));
  return el('details', { class: 'control' },
    el('summary', {}, state(it.verdict), ' ', el('strong', {}, it.control), ' ', it.title,
      missing.size > 0 ? el('span', { class: 'hint' }, ` – missing: ${[...missing.keys()].join(', ')}`) : null),
    el('ul', { class: 'plainlist' }, it.prerequisites.map((one) => prerequisite(one, missing.get(one.name)))));
}

function gaps(items) {
  return items.length === 0 ? null : section('Left to the operator and the auditor',
    table('Gaps that events and inventory do not fill', ['Gap', 'Owner', 'State', 'Attestation'], items.map((gap) => [
      gap.title, words(gap.owner), state(gap.state),
      gap.attestation ? el('ul', { class: 'plainlist' }, reference(gap.attestation.reference), gap.attestation.expires_at ? el('li', {}, 'until ', time(gap.attestation.expires_at)) : null)
        : (gap.statement ? ['none: an operator can attest ', mono(gap.statement)] : 'cannot be filled here'),
    ])));
}

/* How much is open that no control says anything about. */
function leftOver(items) {
  const open = (owner) => items.filter((gap) => gap.owner === owner && gap.state !== 'met').length;
  const [operator, auditor] = [open('operator'), open('auditor')];
  return operator + auditor === 0 ? 'Nothing is open of what is left to the operator and the auditor.'
    : `Left open beside the controls: ${operator} to the operator, ${auditor} to the auditor.`;
}

function trail(manifest) {
  const { population: counted, audit } = manifest;
  return section('Population', facts([
    ['Asked', counted.query],
    ['Served records in the window', counted.total > 0 ? `${counted.total}: ${counted.first_sequence} to ${counted.last_sequence}` : '0'],
    ['Records outside of it', String(counted.outside_window)],
    ['Archived records', `${audit.archived_through}, of which ${counted.archived_in_window} lie in the window`],
    ['Head of the trail', [`record ${audit.head_sequence}, chain `, mono(audit.chain_head)]],
  ]), counted.by_type.length > 0 ? more(`Records by type (${counted.by_type.length})`, table('Records in the window by type', ['Type', 'Count'],
    counted.by_type.map(({ type, count }) => [mono(type), String(count)]))) : null);
}

/* A dataset as it stands in the manifest: single values as they are, lists by their length. */
function dataset(title, value) {
  const of = (one) => (Array.isArray(one) ? `${one.length} listed` : typeof one === 'object' && one !== null ? mono(JSON.stringify(one)) : mono(String(one)));
  return more(title, value && Object.keys(value).length > 0 ? facts(Object.entries(value).map(([name, one]) => [words(name), of(one)])) : el('p', {}, 'Nothing recorded.'));
}

function shown(pack, file, name, digest) {
  const { manifest, manifest_sha256: claimed, key_id: key, timestamp } = pack.signed_export;
  const evidenced = manifest.verdicts.filter((it) => it.verdict === 'evidenced').length;
  const open = manifest.verdicts.length - evidenced;
  const left = leftOver(manifest.attestation_gaps);
  return [
    section('Result',
      notice(open === 0 ? 'plain' : 'warn', `${evidenced} of ${manifest.verdicts.length} controls are evidenced`,
        el('p', {}, open === 0 ? 'Every prerequisite of theirs is met by records in the window or by the inventory at its end.'
          : `${open} ${open === 1 ? 'has' : 'have'} prerequisites missing: open a control to see what to do.`),
        el('p', {}, left)),
      facts([
        ['Catalogue', `${manifest.framework.catalogue}, ${manifest.framework.version}`],
        ['Tenant', manifest.tenant_id],
        ['Window', [time(manifest.evidence_window.from), ' to ', time(manifest.evidence_window.to), ` (${manifest.evidence_window.days} days)`]],
        ['Made', time(manifest.generated_at)],
        ['Manifest SHA-256', mono(claimed)],
        ['Signed by key', mono(key)],
        ['Time stamp', timestamp ? 'yes' : 'none: the time-stamping authority is off'],
      ]),
      el('p', { class: 'hint' }, manifest.notice)),
    section('Take it along',
      el('div', { class: 'row' }, button('Download the signed pack', () => { save(file.blob, name); announce(`${name} is saved`); }, 'main')),
      facts([['File', `${name}, ${size(file.size)}`], ['SHA-256 of the file', mono(digest)]]),
      el('p', {}, 'Verify it at home, with keys that you got earlier and by another way:'),
      commandLine('svc-cli compliance verification-keys -o evidence.jwks'),
      commandLine(`svc-cli compliance verify ${name} --jwks evidence.jwks`)),
    section('Controls', manifest.verdicts.map(control)),
    gaps(manifest.attestation_gaps),
    trail(manifest),
    section('Datasets', dataset('Custody', manifest.custody), dataset('Cryptographic bill of materials', manifest.cbom),
      dataset('Crypto readiness', manifest.crypto_readiness), dataset('AD CS', manifest.adcs)),
  ];
}

async function make(trigger, id, place, result) {
  await busy(trigger, place, async () => {
    const going = progress('the evidence pack');
    fill(result);
    fill(place, el('p', {}, 'The pack is being made: this can take some seconds.'), going.node);
    announce('The evidence pack is being made');
    const path = `/api/v1/compliance/evidence-packs/${encodeURIComponent(id)}`;
    const file = await download(path, { onProgress: going.show, signal: going.signal }).finally(() => fill(place));
    const pack = JSON.parse(await file.blob.text());
    fill(result, shown(pack, file, `evidence-pack-${id}.json`, await sha256Hex(file.blob)));
    const verdicts = pack.signed_export.manifest.verdicts;
    announce(`${verdicts.filter((it) => it.verdict === 'evidenced').length} of ${verdicts.length} controls are evidenced`);
    result.querySelector('h2').setAttribute('tabindex', '-1');
    result.querySelector('h2').focus();
  });
}

export function pack(body, { rest }) {
  const place = el('div'), result = el('div');
  const known = FRAMEWORKS.some(([id]) => id === rest);
  body.append(el('p', {}, el('a', { href: '#/packs' }, 'All frameworks')));
  if (!known) {
    body.append(notice('bad', 'No such framework', el('p', {}, 'Choose one of the list.')));
    return;
  }
  body.append(el('section', { class: 'card' }, el('h2', {}, frameworkName(rest)),
    el('p', {}, 'A pack holds what is evidenced in the last 90 days, what is missing, and what it rests on, signed. Making one is recorded in the audit trail.'),
    button('Make the pack', (event) => make(event.target, rest, place, result), 'main'), place), result);
}

export function packs(body) {
  body.append(el('p', {}, 'A pack says which controls of a framework are evidenced by this tenant’s own records, and which prerequisites are missing. It makes no claim beyond that.'),
    el('ul', { class: 'tiles' }, FRAMEWORKS.map(([id, name]) => el('li', {}, el('a', { href: `#/packs/${id}` }, el('strong', {}, name), el('span', { class: 'hint' }, id))))));
}
