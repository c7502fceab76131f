/* Signing in with a bearer token. */
import { keepToken, tryToken } from './api.js';
import { announce, el, field, form, more } from './dom.js';
import { busy, commandLine, notice } from './parts.js';

export function signIn(body, { problem, done }) {
  const input = el('input', { type: 'password', name: 'token', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'none', required: true, maxlength: '512' });
  const submit = el('button', { type: 'submit', class: 'main' }, 'Sign in');
  const place = el('div');
  const told = problem === null ? null : notice('warn', 'You were signed out', el('p', {}, `${problem.title}. Sign in again to go on where you were.`));
  told?.setAttribute('role', 'alert');
  body.append(...[told, el('div', { class: 'card' }, form(() => busy(submit, place, async () => {
    const token = input.value.trim();
    if (!/^[\x21-\x7e]+$/.test(token)) {
      place.append(notice('bad', 'This is not a token', el('p', {}, 'A token is one word that begins with svc_.')));
      input.focus();
      return;
    }
    try {
      await tryToken(token);
    } catch (refused) {
      input.select();
      input.focus();
      throw refused;
    }
    keepToken(token);
    announce('Signed in');
    done();
  }),
  field('Token', input, 'It stays in this tab: it is forgotten when the tab is closed, when you sign out, or when the appliance refuses it.'),
  submit, place)),
  more('How do I get a token?',
    el('p', {}, 'From an administrator of your tenant, who makes one with a role and an end:'),
    commandLine('svc-cli tokens create --subject "you@example.com" --role auditor --ttl 8h -o token.txt'),
    el('p', {}, 'On an appliance that was started for a trial with scripts/up, tokens for each role stand in var/embedded/client.env.'),
    el('p', {}, 'The role auditor reads the audit trail and evidence, and nothing else. What a token may not see, a page says.'))].filter(Boolean));
  if (problem !== null) {
    input.focus();
  }
}
