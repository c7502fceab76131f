/* Audit records: filters, pages, and whether the records that are shown follow one another in the chain. */
import { get, withQuery } from './api.js';
import { choice, el, field, form, mono, more, table, time } from './dom.js';
import { checkLinks } from './chain.js';
import { notice, pages } from './parts.js';

const LIMIT = '50';

/* What the field holds is UTC, as its label says; it has no zone of its own. */
function utc(local) {
  return local ? new Date(`${local}Z`).toISOString() : '';
}

function chainStatus({ links, broken }, rows) {
  if (broken !== null) {
    const box = notice('bad', 'The chain does not hold', el('p', {}, `Record ${broken} does not follow from the one before it. Keep an export and verify it offline with pinned keys.`));
    box.setAttribute('role', 'alert');
    return box;
  }
  const most = rows[0]?.record.sequence === 1 || rows.at(-1)?.record.sequence === 1 ? rows.length : rows.length - 1;
  if (links === 0) {
    return el('p', { class: 'hint' }, 'No two of these records are neighbours in the chain, so nothing was recomputed.');
  }
  return notice('good', `Chain: ${links} ${links === 1 ? 'link' : 'links'} recomputed, all hold`,
    links < most ? el('p', {}, 'A filter leaves out records between the others: those links were not looked at.') : null);
}

function details({ record, chain }) {
  return more('Details',
    el('p', { class: 'hint' }, 'Chain ', mono(chain)),
    el('pre', { tabindex: '0', 'aria-label': `Record ${record.sequence}` }, JSON.stringify(record, null, 2)));
}

function filters(query, go) {
  const input = (name, more) => el('input', { name, value: query[name] ?? '', ...more });
  return form((values) => {
    const set = Object.entries(values).filter(([, value]) => value !== '');
    go(set.length > 0 ? `/records?${new URLSearchParams(set)}` : '/records');
  },
  el('div', { class: 'fields' },
    field('Type', input('type', { placeholder: 'codesign.signed', maxlength: '128', spellcheck: 'false' })),
    field('Actor', input('actor', { placeholder: 'operator', maxlength: '256', spellcheck: 'false' })),
    field('From (UTC)', input('from', { type: 'datetime-local', step: '1' })),
    field('Before (UTC)', input('to', { type: 'datetime-local', step: '1' })),
    field('Order', choice('order', [['', 'Newest first'], ['asc', 'Oldest first']], query.order ?? ''))),
  el('div', { class: 'row' }, el('button', { type: 'submit', class: 'main' }, 'Show'), el('a', { href: '#/records' }, 'Clear filters')));
}

export function records(body, { signal, query, go }) {
  const asked = { actor: query.actor, type: query.type, from: utc(query.from), to: utc(query.to), order: query.order, limit: LIMIT };
  const list = pages(signal, 'records', async (cursor) => {
    const answer = await get(withQuery('/api/v1/audit/records', { ...asked, cursor }), signal);
    const rows = answer.records;
    if (rows.length === 0) {
      return { count: 0, node: el('p', {}, Object.keys(query).length > 0 ? 'No record fits these filters.' : 'No record yet. The first mutation makes one.') };
    }
    return { count: rows.length, next: answer.next_cursor, node: [
      answer.archived_through ? el('p', { class: 'hint' }, `Records up to ${answer.archived_through} are archived: svc-cli audit archives lists the files.`) : null,
      chainStatus(await checkLinks(rows), rows),
      table('Audit records', ['Sequence', 'Time', 'Type', 'Actor', 'Record'],
        rows.map((row) => [String(row.record.sequence), time(row.record.time), row.record.type, row.record.actor.subject, details(row)])),
    ] };
  });
  body.append(el('section', { class: 'card', 'aria-label': 'Filters' }, filters(query, go)), list);
}
