/* The frame: which page is shown for which address behind the '#', who is signed in, where the focus goes. */
import { keepToken, onRefusedToken, signedIn } from './api.js';
import { announce, el, fill } from './dom.js';
import { approvals } from './page-approvals.js';
import { exports } from './page-export.js';
import { overview } from './page-overview.js';
import { pack, packs } from './page-packs.js';
import { records } from './page-records.js';
import { schedules } from './page-schedules.js';
import { signIn } from './page-signin.js';
import { operation, operations } from './page-signing.js';
import { tsa } from './page-tsa.js';

/* A page: { title, show(main part, { signal, rest, query, go }) }. rest: what follows its name in the address. */
const PAGES = {
  overview: { title: 'Overview', show: overview },
  records: { title: 'Audit records', show: records },
  export: { title: 'Export the trail', show: exports },
  packs: { title: 'Evidence packs', show: packs, one: pack },
  schedules: { title: 'Report schedules', show: schedules },
  signing: { title: 'Code signing', show: operations, one: operation },
  approvals: { title: 'Approvals', show: approvals },
  tsa: { title: 'Time stamps', show: tsa },
};
const main = document.getElementById('main');
const nav = document.getElementById('nav');
const menu = document.getElementById('menu');
const signOut = document.getElementById('signout');
let leaving = new AbortController(); /* of the page that is shown: ends its requests when it is left */
let shownBefore = false;

/* "#/records?type=x" */
function address() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?', 2);
  const [name, ...rest] = path.split('/');
  return { name: Object.hasOwn(PAGES, name) ? name : 'overview', rest: rest.join('/'), query: Object.fromEntries(new URLSearchParams(query)) };
}

function closeMenu() {
  menu.setAttribute('aria-expanded', 'false');
  nav.classList.remove('open');
}

function showFrame(inside, name) {
  nav.hidden = menu.hidden = signOut.hidden = !inside;
  closeMenu();
  fill(nav, el('ul', {}, Object.entries(PAGES).map(([key, page]) => el('li', {},
    el('a', { href: `#/${key}`, 'aria-current': key === name ? 'page' : null }, page.title)))));
}

/* The heading gets the focus, so that a screen reader says where one is and Tab goes on from there; not at the first
 * page, where the browser itself says it. */
function open(title, show) {
  const heading = el('h1', { tabindex: '-1' }, title);
  const body = el('div', { class: 'page' });
  document.title = `${title} – svc console`;
  fill(main, heading, body);
  show(body);
  if (shownBefore) {
    heading.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  shownBefore = true;
}

function showSignIn(problem) {
  leaving.abort();
  leaving = new AbortController();
  showFrame(false);
  open('Sign in', (body) => signIn(body, { problem, done: showPage }));
}

function showPage() {
  if (!signedIn()) {
    showSignIn(null);
    return;
  }
  leaving.abort();
  leaving = new AbortController();
  const { name, rest, query } = address();
  const page = PAGES[name];
  const show = rest !== '' && page.one ? page.one : page.show;
  showFrame(true, name);
  open(page.title, (body) => show(body, { signal: leaving.signal, rest, query, go: (to) => { location.hash = to; } }));
}

menu.addEventListener('click', () => {
  const shown = nav.classList.toggle('open');
  menu.setAttribute('aria-expanded', String(shown));
});
nav.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && nav.classList.contains('open')) {
    closeMenu();
    menu.focus();
  }
});
signOut.addEventListener('click', () => {
  keepToken(null);
  location.hash = '';
  showSignIn(null);
  announce('Signed out');
});
document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault(); /* the address behind '#' is the page's */
  main.focus();
});
onRefusedToken(showSignIn);
addEventListener('hashchange', showPage);
showPage();
