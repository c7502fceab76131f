/* The web console in a real browser, asked by tests/e2e/test_console.py, which prepares the appliance and compares what
 * the browser saved: one line of JSON with the setup, then a line with the name of a scenario, as often as one likes; each
 * is answered with a line: {"result": ...} or {"error": what did not hold}. */
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { WAIT, browse, check, expectAccessible, expectClean, expectNoSideways, go, open, same, settled, shoot, signIn } from './lib.mjs';

const PAGES = [
  ['/overview', 'Overview'], ['/records', 'Audit records'], ['/export', 'Export the trail'], ['/packs', 'Evidence packs'],
  ['/packs/soc2', 'Evidence packs'], ['/schedules', 'Report schedules'], ['/signing', 'Code signing'], ['/approvals', 'Approvals'],
  ['/tsa', 'Time stamps'],
];

/* What a section says, once it has loaded. */
function card(page, title) {
  return page.locator('section').filter({ has: page.getByRole('heading', { level: 2, name: title, exact: true }) });
}

async function saved(page, click) {
  const [download] = await Promise.all([page.waitForEvent('download'), click()]);
  return { name: download.suggestedFilename(), path: await download.path() };
}

const scenarios = {
  /* First visit, cold: how much goes over the wire, and what may not be cached beyond asking. */
  async first(browser, setup) {
    const page = await open(browser, setup);
    const wire = await page.context().newCDPSession(page);
    let bytes = 0;
    await wire.send('Network.enable');
    wire.on('Network.loadingFinished', (event) => { bytes += event.encodedDataLength; });
    await page.goto(`${setup.base}/console`);
    await page.getByLabel('Token', { exact: true }).waitFor();
    same(new URL(page.url()).pathname, '/console/', 'where /console leads');
    check(bytes > 5000 && bytes < 100 * 1024, `the first page takes ${bytes} bytes`);
    const headings = await page.getByRole('heading').allTextContents();
    same(headings, ['Sign in'], 'headings of the first page');
    await expectClean(page);
    return { bytes };
  },

  async signin(browser, setup) {
    const page = await open(browser, setup);
    await page.goto(`${setup.base}/console/#/signing`);
    const token = page.getByLabel('Token', { exact: true });
    for (const [text, says] of [[`svc_${'x'.repeat(40)}`, 'A valid bearer token is required'], ['two words', 'This is not a token']]) {
      await token.fill(text);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByText(says).first().waitFor();
      same(await page.evaluate(() => [sessionStorage.length, document.activeElement.name]), [0, 'token'], 'after a refusal');
    }
    await token.fill(`  ${setup.operator}\n`);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Code signing' }).waitFor(); /* where one wanted to go */
    same(await page.evaluate(() => [localStorage.length, document.cookie]), [0, ''], 'what is kept beyond the tab');
    await page.reload(); /* the tab keeps it */
    await page.getByRole('heading', { level: 1, name: 'Code signing' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await token.waitFor();
    same(await page.evaluate(() => sessionStorage.length), 0, 'kept after signing out');
    /* A token that stops to work: revoked meanwhile. */
    await token.fill(setup.revoked);
    await page.evaluate((text) => sessionStorage.setItem('svc-console-token', text), setup.revoked);
    await page.reload();
    await page.getByText('You were signed out').waitFor();
    same(await page.evaluate(() => sessionStorage.length), 0, 'kept after a refusal');
    await expectClean(page, setup.operator);
  },

  async overview(browser, setup) {
    const page = await open(browser, setup);
    await signIn(page, setup, setup.operator);
    await settled(page);
    await card(page, 'Readiness').getByText('Ready', { exact: true }).waitFor();
    for (const name of ['Signer', 'Database', 'Event log', 'Read model', 'Key probes', 'Copies of the event log']) {
      check(await card(page, 'Readiness').getByText(name, { exact: true }).count() === 1, `readiness lacks ${name}`);
    }
    await card(page, 'Clock').getByText('Host', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Get the signed head' }).click();
    await page.getByText('verifies under the published key').waitFor();
    const chain = card(page, 'Audit chain');
    check(/^[0-9a-f]{64}$/.test(await chain.locator('dd code').first().textContent()), 'the chain head is no hash');
    if (setup.editions) {
      await card(page, 'FIPS posture').getByText('FIPS 140-3').first().waitFor();
      await card(page, 'FIPS posture').getByText('Power-on self-test passed').waitFor();
    }
    await expectClean(page, setup.operator);
  },

  async records(browser, setup) {
    const page = await open(browser, setup);
    await signIn(page, setup, setup.auditor, '#/records');
    await page.getByRole('table', { name: 'Audit records' }).waitFor();
    check(/Chain: 49 links recomputed, all hold/.test(await page.locator('main').textContent()), 'the chain of the first page');
    const newest = await page.getByRole('rowheader').first().textContent();
    await page.getByRole('button', { name: 'Next page' }).click();
    await page.getByText('Page 2', { exact: true }).waitFor();
    await settled(page);
    same(Number(await page.getByRole('rowheader').first().textContent()), Number(newest) - 50, 'the second page begins');
    await page.getByRole('button', { name: 'Previous page' }).click();
    await page.getByText('Page 1', { exact: true }).waitFor();
    await settled(page);
    same(await page.getByRole('rowheader').first().textContent(), newest, 'back on the first page');
    const shown = page.getByRole('row').nth(1);
    check(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/.test(await shown.locator('time').textContent()), 'how a time looks');
    check((await shown.locator('time').getAttribute('datetime')).startsWith((await shown.locator('time').textContent()).slice(0, 10)), 'times are UTC');
    await shown.getByText('Details').click();
    check(JSON.parse(await shown.locator('pre').textContent()).sequence === Number(newest), 'the whole record is shown');
    await page.getByLabel('Type').fill('codesign.refused');
    await page.getByLabel('Actor').fill('system:outbox');
    await page.getByRole('button', { name: 'Show' }).click();
    await page.waitForURL(/type=codesign\.refused/);
    await settled(page);
    const types = await page.locator('td[data-column=Type]').allTextContents();
    check(types.length >= 2 && types.every((type) => type === 'codesign.refused'), `filtered: ${types}`);
    await page.getByLabel('Before (UTC)').fill('2020-01-01T00:00');
    await page.getByRole('button', { name: 'Show' }).click();
    await page.getByText('No record fits these filters.').waitFor();
    await go(page, '/records?order=sideways', 'Audit records');
    await page.getByRole('alert').getByText('A query parameter is unknown or malformed').waitFor(); /* the problem's own words */
    /* A record that was altered on its way does not follow. */
    await page.route('**/api/v1/audit/records?*', async (route) => {
      const answer = await route.fetch();
      const body = await answer.json();
      body.records[3].record.actor.subject = 'mallory';
      await route.fulfill({ response: answer, json: body });
    });
    await go(page, '/records', 'Audit records');
    await page.getByText('The chain does not hold').waitFor();
    await page.unroute('**/api/v1/audit/records?*');
    await expectClean(page, setup.auditor);
  },

  async export(browser, setup) {
    const page = await open(browser, setup);
    await signIn(page, setup, setup.auditor, '#/export');
    const files = {};
    const file = await saved(page, () => page.getByRole('button', { name: 'Download' }).click());
    await page.getByText(`${file.name} is saved`).first().waitFor();
    files.jws = readFileSync(file.path, 'utf8');
    check((await page.locator('.command').allTextContents()).some((text) => text.includes(`audit verify --artifact ${file.name}`)), 'the command is shown');
    const keys = await saved(page, () => page.getByRole('button', { name: 'Verification keys' }).click());
    same(keys.name, 'audit.jwks', 'name of the keys');
    files.jwks = readFileSync(keys.path, 'utf8');
    const chain = await saved(page, () => page.getByRole('button', { name: 'Time-stamp chain' }).click());
    files.chain = readFileSync(chain.path, 'utf8');
    /* Cut off on the way: nothing is saved, and it is said. */
    await page.getByLabel('Shape').selectOption('csv');
    await page.getByLabel('First sequence').fill('2');
    await page.getByLabel('Last sequence').fill('5');
    const csv = await saved(page, () => page.getByRole('button', { name: 'Download' }).click());
    files.csv = readFileSync(csv.path, 'utf8');
    await page.route('**/api/v1/audit/export*', (route) => route.abort());
    await page.getByRole('button', { name: 'Download' }).click();
    await page.getByRole('alert').getByText('The appliance did not answer').waitFor();
    await page.unroute('**/api/v1/audit/export*');
    await expectClean(page, setup.auditor);
    return files;
  },

  async signing(browser, setup) {
    const page = await open(browser, setup);
    await signIn(page, setup, setup.operator, '#/signing');
    await page.getByRole('table', { name: 'Signing operations' }).waitFor();
    await page.getByLabel('State').selectOption('refused');
    await page.getByRole('button', { name: 'Show' }).click();
    await page.waitForURL(/state=refused/);
    await settled(page);
    const states = await page.locator('td[data-column=State]').allTextContents();
    check(states.length >= 2 && states.every((state) => state === 'refused'), `filtered: ${states}`);
    await page.getByRole('link', { name: setup.denied }).click();
    await page.getByText('policy_denied').waitFor();
    await go(page, `/signing/${setup.completed}`, 'Code signing');
    await page.getByText('completed').waitFor();
    await page.getByText(setup.digest).waitFor();
    await go(page, '/signing/00000000-0000-8000-8000-000000000000', 'Code signing');
    await page.getByRole('alert').getByText('no such operation').waitFor();
    await expectClean(page, setup.operator);
  },

  /* Approve one, deny one; what is bound is shown before, and each decision is sent once, with a key. */
  async approvals(browser, setup) {
    const page = await open(browser, setup);
    await signIn(page, setup, setup.approver, '#/approvals');
    const wait = page.getByRole('article');
    await wait.nth(1).waitFor();
    const one = wait.filter({ hasText: setup.approve.digest });
    for (const text of [setup.approve.key_id, 'release', 'builder', 'sha256', setup.approve.resource]) {
      check((await one.textContent()).includes(text), `${text} is bound and not shown`);
    }
    await one.getByRole('button', { name: 'Deny …' }).click();
    await one.getByText('A reason is needed').waitFor();
    await one.getByLabel('Reason').fill('release 1.4');
    await one.getByRole('button', { name: 'Approve …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Approve this?' });
    check((await dialog.textContent()).includes(setup.approve.digest), 'the dialog shows what is approved');
    await expectAccessible(page, 'the dialog');
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    same(page.seen.mutations, [], 'sent without a yes');
    check(await one.getByRole('button', { name: 'Approve …' }).evaluate((e) => e === document.activeElement), 'the focus is back on the button');
    /* The answer gets lost: trying again sends the same key, and it counts once. */
    let lost = 0;
    await page.route('**/approval-requests/*/approvals', async (route) => {
      if (lost++ === 0) {
        await route.fetch();
        await route.abort();
      } else {
        await route.continue();
      }
    });
    for (const says of ['The appliance did not answer', 'Approved: 1 of 1']) {
      await one.getByRole('button', { name: 'Approve …' }).click();
      await dialog.getByRole('button', { name: 'Approve', exact: true }).click();
      await one.getByText(says).waitFor();
    }
    const keys = page.seen.mutations.map(({ key }) => key);
    check(keys.length === 2 && keys[0] === keys[1] && /^[0-9a-f]{32}$/.test(keys[0]), `keys: ${keys}`);
    const other = wait.filter({ hasText: setup.deny.digest });
    await other.getByLabel('Reason').fill('not this one');
    await other.getByRole('button', { name: 'Deny …' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Deny', exact: true }).click();
    await other.getByText('Denied', { exact: true }).waitFor();
    check(page.seen.mutations.at(-1).key !== keys[0], 'another decision has another key');
    await go(page, '/overview', 'Overview');
    await go(page, '/approvals', 'Approvals');
    await page.getByText('Nothing waits for you').waitFor();
    await page.getByRole('table').getByText('denied').first().waitFor();
    await expectClean(page, setup.approver);
  },

  async tsa(browser, setup) {
    const page = await open(browser, setup);
    await signIn(page, setup, setup.operator, '#/tsa');
    await card(page, 'Qualification').getByText('Every condition is met').waitFor();
    await card(page, 'Units').getByRole('row').filter({ hasText: 'active' }).waitFor();
    const commands = await page.locator('.command code').allTextContents();
    check(commands.some((text) => text.includes(`${setup.base}/tsa`)), 'how to stamp names the address');
    await page.route('**/qualification', (route) => route.fulfill({ json: { ready: false, endpoint: null, policy_oid: null, clock: 'kernel',
      conditions: { trusted_clock: false }, unmet: [{ condition: 'trusted_clock', explanation: 'Not synchronised.', recovery: 'Start chrony.' }], notices: [] } }));
    await go(page, '/overview', 'Overview');
    await go(page, '/tsa', 'Time stamps');
    await page.getByText('What to do: Start chrony.').waitFor();
    await page.unroute('**/qualification');
    await expectClean(page, setup.operator);
  },

  /* What a token may not see is said on the page, not thrown: pages that an auditor may not read say what is missing. */
  async auditor(browser, setup) {
    const page = await open(browser, setup);
    await signIn(page, setup, setup.auditor);
    await settled(page);
    await card(page, 'Clock').getByText('needs the permission certs:read').waitFor();
    await card(page, 'Readiness').getByText('Ready', { exact: true }).waitFor();
    await go(page, '/signing', 'Code signing');
    await page.getByText('needs the permission keys:read').waitFor();
    await page.getByText('Not for this token').waitFor();
    await go(page, '/tsa', 'Time stamps');
    same(await page.getByText('needs the permission certs:read').count(), 2, 'what is told on the page of time stamps');
    await go(page, '/records', 'Audit records');
    await page.getByRole('table', { name: 'Audit records' }).waitFor();
    await expectClean(page, setup.auditor);
  },

  async packs(browser, setup) {
    const page = await open(browser, setup);
    await signIn(page, setup, setup.auditor, '#/packs');
    same(await page.locator('.tiles a').count(), 15, 'frameworks');
    await page.getByRole('link', { name: /SOC 2/ }).click();
    await page.getByRole('heading', { level: 2, name: 'SOC 2' }).waitFor();
    let bytes = null; /* what the API gave */
    await page.route('**/evidence-packs/soc2', async (route) => {
      const response = await route.fetch();
      bytes = await response.text();
      await route.fulfill({ response });
    });
    await page.getByRole('button', { name: 'Make the pack' }).click();
    await page.getByText(/\d+ of \d+ controls are evidenced/).first().waitFor();
    const { manifest } = JSON.parse(bytes).signed_export;
    same(await page.locator('.control').count(), manifest.verdicts.length, 'controls');
    const gap = manifest.verdicts.find((it) => it.verdict === 'gap');
    const told = page.locator('.control').filter({ hasText: gap.title });
    await told.locator('summary').first().click();
    for (const missing of gap.missing_prerequisites) {
      check((await told.textContent()).includes(missing.recovery), `what to do about ${missing.name} is not shown`);
    }
    const text = await page.locator('main').textContent();
    for (const it of manifest.attestation_gaps) {
      check(text.includes(it.title), `the gap ${it.id} is not shown`);
    }
    const claim = /.{0,60}\b(is|are) (compliant|certified)\b.{0,60}/i.exec(text.replace(manifest.notice, ''));
    check(claim === null, `a claim: ${claim}`);
    const file = await saved(page, () => page.getByRole('button', { name: 'Download the signed pack' }).click());
    same(readFileSync(file.path, 'utf8') === bytes, true, 'the file is the answer');
    await expectAccessible(page, 'a pack');
    await expectNoSideways(page, 'a pack');
    await shoot(page, setup, 'pack-1440-light');
    await page.emulateMedia({ colorScheme: 'dark' });
    await expectAccessible(page, 'a pack in the dark');
    await page.setViewportSize({ width: 360, height: 740 });
    await expectNoSideways(page, 'a pack at 360 px');
    await shoot(page, setup, 'pack-360-dark');
    await expectClean(page, setup.auditor);
    return { pack: bytes, command: (await page.locator('.command code').allTextContents()) };
  },

  async schedules(browser, setup) {
    const page = await open(browser, setup);
    await signIn(page, setup, setup.operator, '#/schedules');
    await page.getByText('No schedule yet').waitFor();
    await page.getByLabel('Name').fill('Monthly SOC 2');
    await page.getByLabel('For whom').fill('audit-team');
    const days = page.getByLabel('Interval in days');
    for (const wrong of ['0', '367', '1.5', '']) { /* whole days, 1 to 366 */
      await days.fill(wrong);
      await page.getByRole('button', { name: 'Preview' }).click();
      check(await days.evaluate((e) => !e.validity.valid), `${wrong} days pass`);
    }
    same(page.seen.mutations, [], 'sent with wrong days');
    await days.fill('30');
    await page.getByRole('button', { name: 'Preview' }).click();
    await page.getByRole('heading', { name: 'Preview: nothing has been done yet' }).waitFor();
    await page.getByText('30 days').first().waitFor();
    await shoot(page, setup, 'schedules-preview-1440-light');
    await expectAccessible(page, 'the preview');
    await page.getByRole('button', { name: 'Create the schedule' }).click();
    await page.getByText('Created', { exact: true }).waitFor();
    const row = page.getByRole('row').filter({ hasText: 'Monthly SOC 2' });
    await row.getByText('enabled').waitFor();
    await row.getByRole('button', { name: 'Pause Monthly SOC 2' }).click();
    await row.getByText('paused').waitFor();
    await row.getByRole('button', { name: 'Resume Monthly SOC 2' }).click();
    await row.getByText('enabled').waitFor();
    check(page.seen.mutations.filter(({ path }) => !path.endsWith('/preview')).every(({ key }) => key !== null), 'a mutation without a key');
    await expectAccessible(page, 'schedules with one in the list');
    /* A report comes after an interval, of an hour at least: its row and its pick-up are shown from what the API would say. */
    const made = { schedule_id: 's', schedule_version: 1, framework: 'soc2', report_type: 'audit_summary', queued_at: '2026-01-02T03:04:05.000000Z',
      ended_at: '2026-01-02T03:04:06.000000Z', sequence: 7 };
    await page.route('**/compliance/reports?*', (route) => route.fulfill({ json: { items: [
      { ...made, report_id: 'r1', state: 'generated', digest: '00', size: 2 }, { ...made, report_id: 'r2', state: 'failed', failure_code: 'signer_unavailable' }] } }));
    await page.route('**/compliance/reports/r1', (route) => route.fulfill({ body: '{}', headers: { 'content-type': 'application/json', 'content-disposition': 'attachment; filename="audit_summary-r1.jws"' } }));
    await go(page, '/overview', 'Overview');
    await go(page, '/schedules', 'Report schedules');
    await page.getByText('failed: signer_unavailable').waitFor();
    const file = await saved(page, () => page.getByRole('button', { name: 'Download report r1' }).click());
    same([file.name, readFileSync(file.path, 'utf8')], ['audit_summary-r1.jws', '{}'], 'the report that was saved');
    await page.getByText('compliance verify audit_summary-r1.jws').waitFor();
    await expectClean(page, setup.operator);
  },

  /* Every page, in both widths and both colours: axe-core finds nothing, nothing scrolls sideways. */
  async looks(browser, setup) {
    for (const dark of [false, true]) {
      const page = await open(browser, setup, { dark });
      const tone = dark ? 'dark' : 'light';
      await page.goto(`${setup.base}/console/`);
      await page.getByLabel('Token', { exact: true }).waitFor();
      for (const width of [360, 1440]) {
        await page.setViewportSize({ width, height: 800 });
        await expectAccessible(page, `sign in, ${tone}, ${width}`);
        await expectNoSideways(page, `sign in, ${width}`);
        await shoot(page, setup, `signin-${width}-${tone}`);
      }
      await signIn(page, setup, setup.everything);
      for (const [hash, title] of [...PAGES, [`/signing/${setup.completed}`, 'Code signing']]) {
        await go(page, hash, title);
        for (const width of [360, 1440]) {
          await page.setViewportSize({ width, height: 800 });
          await expectNoSideways(page, `${hash}, ${width}`);
          if (dark === (width === 360)) { /* each colour once, each layout once */
            await expectAccessible(page, `${hash}, ${tone}, ${width}`);
          }
          await shoot(page, setup, `${hash.slice(1).replace('/', '-').replace(setup.completed, 'one')}-${width}-${tone}`);
        }
      }
      await expectClean(page, setup.everything);
      await page.context().close();
    }
  },

  /* No mouse: from the first Tab to a filtered list and out again. */
  async keyboard(browser, setup) {
    const page = await open(browser, setup);
    const at = () => page.evaluate(() => (document.activeElement?.textContent || document.activeElement?.name || document.activeElement?.tagName).trim());
    const tabTo = async (name, back = false) => {
      for (let i = 0; i < 60; i++) {
        if (await at() === name) {
          check(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle) !== 'none', `the focus on ${name} is not seen`);
          return;
        }
        await page.keyboard.press(back ? 'Shift+Tab' : 'Tab');
      }
      throw new Error(`the keyboard does not reach ${name}`);
    };
    await page.goto(`${setup.base}/console/`);
    await page.getByLabel('Token', { exact: true }).waitFor();
    await page.keyboard.press('Tab');
    same(await at(), 'Skip to content', 'the first stop');
    await tabTo('token');
    await page.keyboard.type(setup.operator);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    same(await at(), 'Overview', 'where the focus goes after signing in');
    await tabTo('Audit records', true);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Audit records' }).waitFor();
    same(await at(), 'Audit records', 'where the focus goes with the page');
    same(await page.title(), 'Audit records – svc console', 'the title');
    await settled(page);
    check(/records, page 1/.test(await page.getByRole('status').textContent()), 'the result is read out');
    await tabTo('type');
    await page.keyboard.type('codesign.refused');
    await page.keyboard.press('Enter');
    await page.waitForURL(/type=codesign\.refused/);
    await settled(page);
    await tabTo('Details');
    await page.keyboard.press('Enter');
    await page.locator('td pre').first().waitFor();
    await page.setViewportSize({ width: 360, height: 740 }); /* the menu, by hand */
    await tabTo('Menu', true);
    await page.keyboard.press('Enter');
    same(await page.getByRole('button', { name: 'Menu' }).getAttribute('aria-expanded'), 'true', 'the menu is open');
    await tabTo('Time stamps');
    await page.keyboard.press('Escape');
    same(await at(), 'Menu', 'Escape closes the menu');
    await tabTo('Sign out');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();
    await expectClean(page, setup.operator);
  },
};

/* One browser for all of them; each has pages of its own, which end with it. */
async function run(browser, name, setup) {
  const limit = setTimeout(() => { console.error(`${name}: no end in sight`); process.exit(3); }, 8 * WAIT);
  try {
    return { result: await scenarios[name](browser, setup) ?? {} };
  } catch (error) {
    return { error: `${name}: ${error.stack}` };
  } finally {
    clearTimeout(limit);
    await Promise.all(browser.contexts().map((context) => context.close()));
  }
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const setup = JSON.parse((await lines.next()).value);
await browse(setup, async (browser) => {
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    console.log(JSON.stringify(await run(browser, line.value, setup)));
  }
});
