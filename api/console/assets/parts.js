/* What several pages are made of: problems, waiting, commands to copy, files to save, lists by pages. */
import { Problem } from './api.js';
import { announce, button, el, fill, mono, size } from './dom.js';

/* Which of the roles that come with the appliance have a permission (policies/roles.yaml). */
const ROLES = {
  'audit:read': 'auditor or operator',
  'audit:write': 'operator',
  'keys:read': 'operator, approver, ci or admin',
  'keys:write': 'operator or ci',
  'certs:issue': 'approver',
  'certs:read': 'operator, approver or admin',
  'system:read': 'operator, approver or admin',
};

function whatToDo(problem) {
  if (problem.permission !== null) {
    return `This part needs the permission ${problem.permission}. Ask an administrator for a token with ${
      ROLES[problem.permission] ? `the role ${ROLES[problem.permission]}` : 'a role that has it'}.`;
  }
  if (problem.status === 429 || problem.code === 'bulkhead_saturated') {
    return `Wait ${problem.retryAfter ?? 'a few'} seconds, then try again.`;
  }
  if (problem.status === 409) {
    return 'Reload the page to see the present state.';
  }
  return problem.again ? 'Trying again is safe: nothing is done twice.' : null;
}

export function notice(kind, title, ...children) {
  return el('div', { class: `notice ${kind}` }, el('p', {}, el('strong', {}, title)), children);
}

/* A permission that is missing is a plain fact about this token; anything else is a failure, and read out at once. */
export function problemBox(problem, again = null) {
  if (!(problem instanceof Problem)) {
    throw problem;
  }
  const lacking = problem.permission !== null;
  const advice = whatToDo(problem);
  if (problem.code === 'route_not_found') {
    return notice('plain', 'Not served here', el('p', {}, 'This appliance does not have this part.'));
  }
  const box = notice(lacking ? 'plain' : 'bad', lacking ? 'Not for this token' : problem.title,
    !lacking && problem.detail ? el('p', {}, problem.detail) : null,
    advice ? el('p', {}, advice) : null,
    problem.resource ? el('p', {}, 'Resource: ', mono(problem.resource)) : null,
    !lacking && problem.trace ? el('p', { class: 'hint' }, `Code ${problem.code}, trace ${problem.trace}`) : null,
    again && !lacking ? button('Try again', again) : null);
  if (!lacking) {
    box.setAttribute('role', 'alert');
  }
  return box;
}

/* Fills `place` with what `make` gives; while it is made, with a word about it. A page that was left is left alone. */
export async function load(place, signal, what, make) {
  place.setAttribute('aria-busy', 'true');
  fill(place, el('p', { class: 'hint' }, `Loading ${what} …`));
  try {
    const made = await make();
    if (!signal.aborted) {
      fill(place, made);
    }
  } catch (problem) {
    if (problem.name !== 'AbortError' && !signal.aborted) {
      fill(place, problemBox(problem, () => load(place, signal, what, make)));
    }
  } finally {
    place.removeAttribute('aria-busy');
  }
}

/* A section that loads by itself. */
export function loading(signal, title, make) {
  const place = el('div');
  load(place, signal, title.toLowerCase(), make);
  return el('section', { class: 'card' }, el('h2', {}, title), place);
}

/* Off, but still where the keyboard is: a button that is disabled loses the focus. */
export function off(trigger, is) {
  if (is) {
    trigger.setAttribute('aria-disabled', 'true');
  } else {
    trigger.removeAttribute('aria-disabled');
  }
}

export function isOff(trigger) {
  return trigger.hasAttribute('aria-disabled');
}

/* Runs `work` with the button off; a problem is shown in `place`, where the button's form has room for it. */
export async function busy(trigger, place, work) {
  if (isOff(trigger)) {
    return;
  }
  off(trigger, true);
  fill(place);
  try {
    await work();
  } catch (problem) {
    if (problem.name !== 'AbortError') {
      fill(place, problemBox(problem));
    }
  } finally {
    off(trigger, false);
  }
}

/* A command line to take along. */
export function commandLine(text) {
  const copy = button('Copy', async () => {
    try {
      await navigator.clipboard.writeText(text);
      announce('Copied');
      copy.textContent = 'Copied';
    } catch {
      announce('Copying is not allowed here: select the text');
    }
  }, 'quiet');
  copy.setAttribute('aria-label', `Copy: ${text}`);
  return el('div', { class: 'command' }, el('pre', { tabindex: '0' }, el('code', {}, text)), copy);
}

/* Hands a blob to the browser as a file. */
export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = el('a', { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60000); /* the browser has opened it long before */
}

export async function sha256Hex(blob) {
  const digest = await crypto.subtle.digest('SHA-256', await blob.arrayBuffer());
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/* Bytes as they come, and a way to stop: how many there will be the appliance does not know before. */
export function progress(what) {
  const stop = new AbortController();
  const bytes = el('span', {}, '0 bytes');
  const node = el('div', { class: 'progress' }, el('progress', { 'aria-label': what }), bytes, button('Cancel', () => stop.abort(), 'quiet'));
  return { node, signal: stop.signal, show: (count) => { bytes.textContent = size(count); } };
}

/* Pages of a list by cursor. `page(cursor)` gives { node, count, next }. The way back is the cursors gone through. */
export function pages(signal, what, page) {
  const place = el('div');
  const status = el('p', { class: 'hint' });
  const back = button('Previous page', () => turn(back, () => before.slice(0, -1)));
  const forth = button('Next page', () => turn(forth, () => [...before, next]));
  const bar = el('nav', { class: 'row', hidden: true, 'aria-label': `Pages of ${what}` }, back, forth, status);
  let before = [null], next = null; /* the cursor of each page up to this one */

  async function show(cursors) {
    off(back, true);
    off(forth, true);
    await load(place, signal, what, async () => {
      const made = await page(cursors.at(-1));
      before = cursors;
      next = made.next ?? null;
      off(back, before.length === 1);
      off(forth, next === null);
      bar.hidden = before.length === 1 && next === null;
      status.textContent = `Page ${before.length}`;
      announce(`${made.count} ${what}, page ${before.length}`);
      return made.node;
    });
  }
  async function turn(trigger, cursors) {
    if (!isOff(trigger)) {
      await show(cursors());
      place.scrollIntoView();
    }
  }
  show(before);
  return el('div', {}, place, bar);
}
