/* How the appliance stands. Each part loads by itself and says for itself what this token may not see. */
import { ask, get, readiness } from './api.js';
import { announce, badge, button, el, facts, mono, more, time, words } from './dom.js';
import { loading, notice } from './parts.js';
import { signedHead } from './chain.js';

const CHECKS = { db: 'Database', nats: 'Event log', projection: 'Read model', tsa: 'Time stamps', tsa_units: 'Time-stamping units' };

function checkName(name) {
  return CHECKS[name] ?? words(name);
}

function state(word) {
  return badge(word === 'ok' ? 'good' : 'bad', word === 'ok' ? 'ok' : words(word).toLowerCase());
}

function ready(answer) {
  const good = answer.status === 'ready';
  const checks = answer.checks ?? {};
  announce(good ? 'The appliance is ready' : 'The appliance is not ready');
  return [
    notice(good ? 'good' : 'bad', good ? 'Ready' : 'Not ready',
      good ? null : el('p', {}, 'Requests may be refused. The log of the appliance says why; docs/event-log-faults.md and docs/operating-hsm.md have the way back.')),
    answer.degraded?.length > 0 ? notice('warn', 'Degraded', el('p', {}, `Works, but needs a look: ${answer.degraded.map(checkName).join(', ')}.`)) : null,
    facts([
      ...Object.entries(checks).map(([name, word]) => [checkName(name), state(word)]),
      ['Messages in the event log', String(answer.projection?.log_last ?? '–')],
      ['Of them not yet in the read model', String(answer.projection?.lag ?? '–')],
      ['Copies of the event log', `${answer.event_log?.replicas_actual ?? '–'} of ${answer.event_log?.replicas_desired ?? '–'}`],
    ]),
  ];
}

function yes(value) {
  return typeof value === 'boolean' ? badge(value ? 'good' : 'bad', value ? 'yes' : 'no') : '–';
}

function posture({ fips }) {
  const { module: loaded, regulated_deployment_profile: profile } = fips;
  const list = (items) => (items?.length > 0 ? el('ul', {}, items.map((item) => el('li', {}, item))) : 'none');
  return [
    facts([
      ['Standard', fips.standard],
      ['Module', loaded ? `${loaded.name} ${loaded.version}` : 'none is loaded'],
      ['Module is active', yes(fips.module_active)],
      ['Required by the configuration', yes(fips.required)],
      ['Power-on self-test passed', yes(fips.self_test_passed)],
      ['Validation certificates of the HSM, as attached', list(profile?.hsm_kms_validation_certificates)],
    ]),
    more('Algorithms, and what the operator has to add',
      facts([
        ['Approved algorithms', list(profile?.approved_algorithms)],
        ['Outside approved mode', list(profile?.non_fips_fences)],
        ['To be added by the operator', list(profile?.operator_required_artifacts)],
        ['Build target', fips.build_target],
      ])),
    el('p', { class: 'hint' }, 'What this process reports about itself; it is no validation certificate.'),
  ];
}

function clock(answer) {
  return [facts([
    ['Time stamps may be issued', yes(answer.ready)],
    ['The clock is trusted', yes(answer.conditions?.trusted_clock)],
    ['Vouched for by', answer.clock ? words(answer.clock) : '–'],
  ]), el('a', { href: '#/tsa' }, 'All conditions')];
}

function newest(answer) {
  const [row] = answer.records;
  if (row === undefined) {
    return el('p', {}, 'No record yet. The first mutation makes one.');
  }
  const place = el('div');
  return [
    facts([
      ['Newest record', String(row.record.sequence)],
      ['Recorded', time(row.record.time)],
      ['Chain head', mono(row.chain)],
    ]),
    el('div', { class: 'row' }, el('a', { href: '#/records' }, 'All records'), button('Get the signed head', (event) => signedHead(event.target, place))),
    place,
  ];
}

export function overview(body, { signal }) {
  body.append(el('div', { class: 'cards' },
    loading(signal, 'Readiness', async () => ready(await readiness(signal))),
    loading(signal, 'Audit chain', async () => newest(await get('/api/v1/audit/records?limit=1', signal))),
    loading(signal, 'FIPS posture', async () => posture(await get('/api/v1/editions', signal))),
    loading(signal, 'Clock', async () => clock(await ask('/api/v1/protocols/tsa/qualification', undefined, signal)))));
}
