/* What waits for an approver's decision, and what was decided. Everything that an approval binds is shown before the
 * button, and once more before it counts. */
import { command, get, withQuery } from './api.js';
import { announce, badge, button, choice, el, facts, field, fill, form, hexOf, mono, span, table, time, words } from './dom.js';
import { busy, load, notice, pages } from './parts.js';

const KINDS = { approved: 'good', used_up: 'plain', denied: 'bad', pending: 'warn' };
const SHOWN = ['mode', 'principal', 'key_id', 'artifact_type', 'digest_algorithm', 'digests', 'rule'];

function digest(base64) {
  return el('li', {}, mono(hexOf(base64)));
}

/* Known members by name, every other one as it is: nothing that is bound stays unseen. */
function bound(about) {
  const names = { mode: 'Signed with', principal: 'Requester', key_id: 'Key', artifact_type: 'Artifact', digest_algorithm: 'Digest algorithm', rule: 'Rule' };
  return facts([
    ...SHOWN.filter((name) => name !== 'digests' && about[name] !== undefined).map((name) => [names[name], mono(about[name])]),
    about.digests ? [`Digests, hex (${about.digests.length})`, el('ul', { class: 'plainlist' }, about.digests.map(digest))] : null,
    ...Object.entries(about).filter(([name]) => !SHOWN.includes(name)).map(([name, value]) => [words(name), mono(typeof value === 'string' ? value : JSON.stringify(value))]),
  ]);
}

function terms(request) {
  return facts([
    ['Asked for', time(request.created_at)],
    ['Decide before', time(request.expires_at)],
    ['Approvals so far', `${request.approvals} of ${request.approvers}`],
    ['Holds for, once approved', span(request.window_seconds)],
    ['How many signings', request.max_signings > 0 ? String(request.max_signings) : 'as many as are asked for in that time'],
    ['Resource', mono(request.resource)],
  ]);
}

/* A dialog that has to be answered: closes with true or false. */
function confirmed(title, text, yes, kind) {
  return new Promise((resolve) => {
    const dialog = el('dialog', { 'aria-labelledby': 'asked' }, el('h2', { id: 'asked' }, title), text,
      el('div', { class: 'row' }, button(yes, () => dialog.close('yes'), kind), button('Back', () => dialog.close('no'))));
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(dialog.returnValue === 'yes');
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function card(request, heading) {
  const place = el('div');
  const reason = el('textarea', { name: 'reason', rows: '2', maxlength: '1024' });
  const path = `/api/v1/approval-requests/${request.request_id}`;
  const decide = { approvals: command(`${path}/approvals`), denials: command(`${path}/denials`) };
  const short = `${request.requester} asks to ${request.action}: ${request.about?.artifact_type ?? request.resource}`;
  const article = el('article', { class: 'card' }, el(heading, { tabindex: '-1' }, short), bound(request.about ?? {}), terms(request));

  async function settle(trigger, what) {
    const granting = what === 'approvals';
    const text = reason.value.trim();
    if (!granting && text === '') {
      fill(place, notice('bad', 'A reason is needed', el('p', {}, 'Say in a few words why it is denied: the requester reads it.')));
      reason.focus();
      return;
    }
    const sure = await confirmed(granting ? 'Approve this?' : 'Deny this?',
      [el('p', {}, granting ? 'It lets exactly what is listed pass, in your name.' : 'Nothing undoes it within its time.'), bound(request.about ?? {})],
      granting ? 'Approve' : 'Deny', granting ? 'main' : 'danger');
    if (!sure) {
      return;
    }
    await busy(trigger, place, async () => {
      const answer = await decide[what](text === '' ? {} : { reason: text });
      const said = granting ? `Approved: ${answer.approvals} of ${answer.approvers}` : 'Denied';
      const result = notice('good', said, el('p', {}, granting && answer.state === 'approved'
        ? 'The requester can repeat the request now.' : `It is ${words(answer.state).toLowerCase()} now.`));
      fill(article, el(heading, { tabindex: '-1' }, short), result, bound(request.about ?? {}));
      article.firstChild.focus();
      announce(said);
    });
  }
  article.append(field('Reason', reason, 'Goes into the audit trail. Needed to deny.'),
    el('div', { class: 'row' }, button('Approve …', (event) => settle(event.target, 'approvals'), 'main'), button('Deny …', (event) => settle(event.target, 'denials'), 'danger')),
    place);
  return article;
}

function rows(items) {
  return table('Requests for approval', ['Asked for', 'State', 'Requester', 'Action', 'Bound to'], items.map((item) => [
    time(item.created_at), badge(KINDS[item.state] ?? 'plain', words(item.state).toLowerCase()), item.requester, item.action,
    el('details', {}, el('summary', {}, item.about?.artifact_type ?? 'Details'), bound(item.about ?? {}), terms(item)),
  ]));
}

export function approvals(body, { signal, query, go }) {
  const waiting = el('div');
  load(waiting, signal, 'what waits for you', async () => {
    const { items } = await get('/api/v1/approval-requests?waiting_for_me=true&limit=50', signal);
    announce(`${items.length} waiting for you`);
    return items.length > 0 ? items.map((item) => card(item, 'h3'))
      : el('p', {}, 'Nothing waits for you. Only an approver (certs:issue) who did not ask for it can decide; svc-cli approvals list --waiting shows the same.');
  });
  const states = [['', 'Any'], ...['pending', 'approved', 'used_up', 'denied', 'expired', 'replaced'].map((name) => [name, words(name)])];
  body.append(el('section', {}, el('h2', {}, 'Waiting for you'), waiting),
    el('section', {}, el('h2', {}, 'All requests'),
      form((values) => go(values.state ? `/approvals?state=${values.state}` : '/approvals'),
        el('div', { class: 'fields' }, field('State', choice('state', states, query.state ?? ''))), el('button', { type: 'submit' }, 'Show')),
      pages(signal, 'requests', async (cursor) => {
        const answer = await get(withQuery('/api/v1/approval-requests', { state: query.state, limit: '20', cursor }), signal);
        return { count: answer.items.length, next: answer.next_cursor, node: answer.items.length > 0 ? rows(answer.items) : el('p', {}, 'No request here.') };
      })));
}
