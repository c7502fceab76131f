/* Report schedules: what is made regularly, a new one (previewed, then created), and the reports that were made. */
import { ask, command, download, get, withQuery } from './api.js';
import { announce, badge, button, choice, el, facts, field, fill, form, mono, section, size, span, table, time, words } from './dom.js';
import { FRAMEWORKS, frameworkName } from './page-packs.js';
import { busy, commandLine, notice, pages, save } from './parts.js';

const BASE = '/api/v1/compliance/report-schedules';
const TYPES = [
  ['framework_evidence_pack', 'Evidence pack'],
  ['inventory_snapshot', 'Snapshot of the inventory'],
  ['cbom_posture', 'Bill of materials (CBOM)'],
  ['audit_summary', 'Summary of the audit trail'],
];
const DAY = 86400;

function typeName(id) {
  return TYPES.find(([known]) => known === id)?.[1] ?? id;
}

/* ---- the list ---- */

function toggle(schedule, again) {
  const place = el('div');
  const what = schedule.enabled ? 'pause' : 'resume';
  const run = command(`${BASE}/${schedule.schedule_id}/${what}`);
  const trigger = button(schedule.enabled ? 'Pause' : 'Resume', () => busy(trigger, place, async () => {
    await run({ expected_version: schedule.version });
    await again();
    announce(`${schedule.name} is ${schedule.enabled ? 'paused' : 'running'}`);
  }));
  trigger.setAttribute('aria-label', `${words(what)} ${schedule.name}`);
  return [trigger, place];
}

function list(signal, again) {
  return pages(signal, 'schedules', async (cursor) => {
    const answer = await get(withQuery(BASE, { limit: '20', cursor }), signal);
    return { count: answer.items.length, next: answer.next_cursor, node: answer.items.length === 0
      ? el('p', {}, 'No schedule yet. Make the first one below.')
      : table('Report schedules', ['Name', 'State', 'Report', 'Framework', 'Every', 'Next', 'Change'], answer.items.map((it) => [
        it.name, badge(it.enabled ? 'good' : 'plain', it.enabled ? 'enabled' : 'paused'), typeName(it.report_type), frameworkName(it.framework),
        span(it.interval_seconds), it.enabled ? time(it.next_due_at) : '–', toggle(it, again)])) };
  });
}

/* ---- a new one ---- */

function lines(title, texts) {
  return texts?.length > 0 ? [el('h4', {}, title), el('ul', {}, texts.map((text) => el('li', {}, typeof text === 'string' ? text : JSON.stringify(text))))] : null;
}

function preview(answer, body, create, place, again) {
  const below = el('div');
  const definition = answer.definition;
  const make = button('Create the schedule', () => busy(make, below, async () => {
    await create({ ...body, preview_fingerprint: answer.preview_fingerprint });
    await again();
    announce('The schedule is created');
    fill(place, notice('good', 'Created', el('p', {}, `${definition.name} makes its first report after ${span(definition.interval_seconds)}.`)));
  }), 'main');
  const heading = el('h3', { tabindex: '-1' }, 'Preview: nothing has been done yet');
  fill(place, el('div', { class: 'notice plain' }, heading, facts([
    ...Object.entries(definition).map(([name, value]) => [words(name), name === 'interval_seconds' ? span(value) : mono(String(value))]),
    ['Fingerprint', mono(answer.preview_fingerprint)],
  ]), lines('What will be written', answer.later_writes), lines('How to undo it', answer.recovery_steps), lines('How to check it', answer.verification_steps),
  make, below));
  heading.focus();
}

function maker(again) {
  const place = el('div');
  const create = command(BASE);
  const submit = el('button', { type: 'submit', class: 'main' }, 'Preview');
  return section('New schedule', form((values) => busy(submit, place, async () => {
    const body = { framework: values.framework, name: values.name, report_type: values.report_type, interval_seconds: Number(values.days) * DAY,
      delivery: 'audit_export', recipient_ref: values.recipient_ref, enabled: true };
    preview(await ask(`${BASE}/preview`, body), body, create, place, again);
  }),
  el('div', { class: 'fields' },
    field('Name', el('input', { name: 'name', required: true, maxlength: '128' })),
    field('Report', choice('report_type', TYPES, TYPES[0][0])),
    field('Framework', choice('framework', FRAMEWORKS, 'soc2')),
    field('Interval in days', el('input', { name: 'days', type: 'number', required: true, min: '1', max: '366', step: '1', value: '30', inputmode: 'numeric' }), 'Whole days, 1 to 366.'),
    field('For whom', el('input', { name: 'recipient_ref', required: true, maxlength: '256' }), 'A reference of yours. Nothing is sent: reports are kept here for pick-up.')),
  submit), place);
}

/* ---- what was made ---- */

function pickUp(report) {
  const place = el('div');
  const id = report.report_id;
  const trigger = button('Download', () => busy(trigger, place, async () => {
    const file = await download(`/api/v1/compliance/reports/${id}`, { onProgress: () => {}, signal: undefined });
    const name = file.name ?? `report-${id}.json`;
    save(file.blob, name);
    announce(`${name} is saved`);
    fill(place, el('p', { class: 'hint' }, `Saved, ${size(file.size)}. Verify it:`), commandLine(`svc-cli compliance verify ${name} --jwks evidence.jwks`));
  }));
  trigger.setAttribute('aria-label', `Download report ${id}`);
  return [trigger, place];
}

function reports(signal) {
  return pages(signal, 'reports', async (cursor) => {
    const answer = await get(withQuery('/api/v1/compliance/reports', { limit: '20', cursor }), signal);
    return { count: answer.items.length, next: answer.next_cursor, node: answer.items.length === 0
      ? el('p', {}, 'No report was made yet. A schedule makes its first one after its interval.')
      : table('Generated reports', ['Made', 'Report', 'Framework', 'State', 'Document'], answer.items.map((it) => [
        time(it.ended_at), typeName(it.report_type), frameworkName(it.framework),
        badge(it.state === 'generated' ? 'good' : 'bad', it.failure_code ? `${it.state}: ${it.failure_code}` : it.state),
        it.state === 'generated' ? pickUp(it) : '–'])) };
  });
}

export function schedules(body, { signal }) {
  const place = el('div');
  const again = () => fill(place, list(signal, again));
  again();
  body.append(section('Schedules', place), maker(again), section('Generated reports', reports(signal)));
}
