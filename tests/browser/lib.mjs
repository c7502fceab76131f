/* What the browser tests share: Debian's Chromium, a page that is watched, checks that wait for a condition. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire('/opt/browser/');
const { chromium } = require('playwright-core');
const { default: AxeBuilder } = require('@axe-core/playwright');

export const WAIT = 15000; /* bounds a hang; nothing is measured by it */

/* Chromium knows none of our CAs: the one key that it may take is the appliance's, by its SPKI hash, which the caller has
 * from a connection that was verified. Any other certificate error stays one. --no-sandbox: the tests run as root, and load nothing but what the appliance serves. */
export async function browse(setup, work) {
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage',
    `--ignore-certificate-errors-spki-list=${setup.spki}`] });
  try {
    return await work(browser);
  } finally {
    await browser.close();
  }
}

/* A page of its own that keeps account of what must not happen: see expectClean. */
export async function open(browser, setup, { width = 1440, height = 900, dark = false } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? 'dark' : 'light', reducedMotion: 'reduce',
    acceptDownloads: true, locale: 'en-GB', timezoneId: 'Pacific/Auckland' }); /* far from UTC, so that a local time shows */
  context.setDefaultTimeout(WAIT);
  const page = await context.newPage();
  page.seen = { elsewhere: [], errors: [], mutations: [], urls: [] };
  await page.addInitScript(() => {
    globalThis.violations = [];
    addEventListener('securitypolicyviolation', (event) => globalThis.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.origin !== setup.base && url.protocol !== 'blob:' && url.protocol !== 'data:') {
      page.seen.elsewhere.push(request.url());
    }
    page.seen.urls.push(request.url());
    if (request.method() === 'POST') {
      page.seen.mutations.push({ path: url.pathname, key: request.headers()['idempotency-key'] ?? null });
    }
  });
  page.on('pageerror', (error) => page.seen.errors.push(String(error)));
  page.on('console', (message) => {
    if (/Content.Security.Policy|Trusted|Refused to/.test(message.text())) {
      page.seen.errors.push(message.text());
    }
  });
  return page;
}

export function check(holds, what) {
  if (!holds) {
    throw new Error(what);
  }
}

export function same(got, want, what) {
  check(JSON.stringify(got) === JSON.stringify(want), `${what}: got ${JSON.stringify(got)}, wanted ${JSON.stringify(want)}`);
}

/* Nothing was stopped by the policy, asked elsewhere or thrown, and the token is in no address. */
export async function expectClean(page, token) {
  same(await page.evaluate(() => globalThis.violations), [], 'policy violations');
  same(page.seen.elsewhere, [], 'requests to other origins');
  same(page.seen.errors, [], 'errors');
  check(!token || page.seen.urls.concat(page.url()).every((url) => !url.includes(token)), 'the token is in an address');
}

export async function signIn(page, setup, token, hash = '') {
  await page.goto(`${setup.base}/console/${hash}`);
  await page.getByLabel('Token', { exact: true }).fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
}

export async function go(page, hash, title) {
  await page.evaluate((to) => { location.hash = to; }, hash);
  await page.getByRole('heading', { level: 1, name: title }).waitFor();
  await settled(page);
}

/* Nothing loads any more. */
export async function settled(page) {
  await page.waitForFunction(() => document.querySelector('main [aria-busy], main [aria-disabled=true].main') === null, null, { timeout: WAIT });
}

export async function expectAccessible(page, what) {
  const { violations } = await new AxeBuilder({ page }).setLegacyMode().analyze();
  same(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(' ')).slice(0, 3).join(' | ')}`), [], `axe-core on ${what}`);
}

export async function expectNoSideways(page, what) {
  const wide = await page.evaluate(() => {
    const limit = document.documentElement.clientWidth;
    return document.documentElement.scrollWidth <= limit ? null : [...document.querySelectorAll('main *')]
      .filter((e) => e.getBoundingClientRect().right > limit + 1).slice(0, 4).map((e) => `${e.tagName}.${e.className}: ${e.textContent.slice(0, 40)}`);
  });
  same(wide, null, `${what} scrolls sideways`);
}

export async function shoot(page, setup, name) {
  if (setup.shots) {
    mkdirSync(setup.shots, { recursive: true });
    writeFileSync(`${setup.shots}/${name}.png`, await page.screenshot({ fullPage: true }));
  }
}
