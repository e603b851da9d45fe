/**
 * Takes the pictures of the README, light and dark, from a Weir of its own with real data, into views/docs:
 * `npm run build && node test/docs/pictures.mjs`. It needs chromium-headless-shell.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const PORT = 18_431;
const BYTES_MAX = 150_000;
const URL_OF_WEIR = `http://127.0.0.1:${PORT}`;
const program = fileURLToPath(new URL('../../dist/server/cli/weir.js', import.meta.url));
const target = fileURLToPath(new URL('../../views/docs/', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'weir-pictures-'));
// As root, Weir's Postgres runs as another user.
chmodSync(folder, 0o711);
const person = { email: 'ada@example.org', password: 'nine lemon barrels' };
const env = {
  PATH: process.env.PATH,
  DATA_DIR: join(folder, 'data'),
  PORT: String(PORT),
  METRICS_PORT: String(PORT + 1),
  WORKERS: '1',
  ADMIN_EMAIL: person.email,
  ADMIN_PASSWORD: person.password,
  LOG_LEVEL: 'warn',
};
const weir = (...args) => execFileSync(process.execPath, [program, ...args], { cwd: folder, env, encoding: 'utf8' });
const json = (...args) => JSON.parse(weir(...args, '--json'));

/** A payload as a shop's payment provider sends it. */
function payload(type, number, object) {
  const file = join(folder, `${type}-${number}.json`);
  const event = { id: `evt_1QK${number}`, object: 'event', api_version: '2026-01-28', type, livemode: true };
  writeFileSync(file, JSON.stringify({ ...event, data: { object } }));
  return file;
}

function fill() {
  const add = (name, ...more) =>
    json('webhook', 'add', '--name', name, '--generate-secret', '--rate-limit', '100000', ...more);
  const github = add('github', '--scheme', 'github');
  const payments = add('payments', '--scheme', 'stripe', '--description', 'Invoices and refunds of the shop');
  const agent = (name, ...webhooks) =>
    json('agent', 'add', '--name', name, ...webhooks.flatMap(({ id }) => ['--webhook', id]));
  const credentials = [agent('builds', github), agent('bookkeeping', payments)].map(({ name, credential }) => {
    const file = join(folder, `${name}.credential`);
    writeFileSync(file, credential, { mode: 0o600 });
    return file;
  });

  weir('send', github.url, '--secret', github.secret, '--scheme', 'github', '--github-examples');
  const invoices = [1201, 1202, 1203, 1204].map((number) =>
    payload('invoice.paid', number, {
      id: `in_1QK${number}`,
      object: 'invoice',
      currency: 'eur',
      amount_paid: 4900 + number,
      customer: { id: 'cus_RJ81', name: 'Grace Hopper', email: 'grace@example.org' },
      lines: [{ description: 'Team plan, 5 seats', quantity: 5, amount: 4900 }],
      paid: true,
    }),
  );
  // Enough that the three rejections below are the exception that they are.
  weir('send', payments.url, '--secret', payments.secret, '--scheme', 'stripe', '--count', '100', ...invoices);
  // What a sender sends whose secret was rotated on its side only; the summary lists 403.
  const wrong = ['send', payments.url, '--secret', `${payments.secret}x`, '--scheme', 'stripe', invoices[0]];
  for (let count = 0; count < 3; count += 1) spawnWeir(wrong);
  return credentials;
}

/** Counts of the day before now, as a sender makes them that works by day: quiet nights, a peak in the afternoon. */
const DAY = `
  with spans as (
    select step, at from (values (900), (3600)) s (step), lateral generate_series(
      date_bin('1 hour', now(), '2000-01-01') - interval '24 hours',
      date_bin(step * interval '1 second', now(), '2000-01-01') - step * interval '1 second',
      step * interval '1 second') at
  ), counts as (
    select w.id as webhook_id, step, at,
      round(step * case w.name when 'github' then 0.12 else 0.3 end
        * (0.2 + power(sin(pi() * (extract(epoch from at)::int % 86400 - 7200) / 86400), 4) + 0.15 * random())) as accepted
    from webhooks w, spans
  )
  insert into history (webhook_id, step, at, accepted, duplicates, rejected, limited, bytes)
  select webhook_id, step, at, accepted, 0, 0, 0, accepted * 900 from counts
  union all
  select '00000000-0000-0000-0000-000000000000', step, at, sum(accepted), 0, 0, 0, sum(accepted) * 900 from counts group by step, at`;

/** Runs a command whose exit code does not matter. */
function spawnWeir(args) {
  try {
    weir(...args);
  } catch (error) {
    if (error.status === null) throw error;
  }
}

async function consume(credential, seconds) {
  const agent = spawn(
    process.execPath,
    [program, 'consume', URL_OF_WEIR, '--credential-file', credential, '--exec', 'cat > /dev/null'],
    { cwd: folder, env, stdio: 'ignore' },
  );
  setTimeout(() => agent.kill('SIGINT'), seconds * 1000);
  await once(agent, 'exit');
}

async function ready() {
  for (let tries = 0; tries < 600; tries += 1) {
    const answer = await fetch(`${URL_OF_WEIR}/readyz`).catch(() => null);
    if (answer?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error('Weir was not ready within a minute');
}

async function take(browser, colorScheme) {
  const context = await browser.newContext({
    baseURL: URL_OF_WEIR,
    colorScheme,
    viewport: { width: 1280, height: 860 },
  });
  const page = await context.newPage();
  await page.goto('/sign-in');
  await page.locator('[name=email]').fill(person.email);
  await page.locator('[name=password]').fill(person.password);
  await page.locator('button.primary').click();
  await page.waitForURL(`${URL_OF_WEIR}/`);
  const [event] = json('event', 'list', '--limit', '1').items;
  const [rejection] = json('rejection', 'list', '--limit', '1').items;
  const places = { overview: '/', event: `/events/${event.id}`, rejection: `/rejections/${rejection.id}` };
  for (const [name, path] of Object.entries(places)) {
    await page.goto(path);
    await page.evaluate(() => document.fonts.ready);
    // The chart and the parts that are loaded behind the page.
    await page.waitForTimeout(1500);
    const file = join(target, `${name}-${colorScheme}.png`);
    await page.screenshot({ path: file });
    const { size } = statSync(file);
    console.log(`${file}: ${size} bytes`);
    if (size > BYTES_MAX) throw new Error(`${file} has more than ${BYTES_MAX} bytes`);
  }
  await context.close();
}

const server = spawn(process.execPath, [program, 'start'], {
  cwd: folder,
  env,
  stdio: ['ignore', 'inherit', 'inherit'],
});
const ended = once(server, 'exit');
let browser;
try {
  await ready();
  await Promise.all(fill().map((credential) => consume(credential, 12)));
  weir('sql', '--write', DAY);
  browser = await chromium.launch({
    executablePath: execFileSync('which', ['chromium-headless-shell'], { encoding: 'utf8' }).trim(),
    args: process.getuid() === 0 ? ['--no-sandbox'] : [],
  });
  await take(browser, 'light');
  await take(browser, 'dark');
} finally {
  await browser?.close();
  server.kill('SIGTERM');
  await ended;
  rmSync(folder, { recursive: true });
}
