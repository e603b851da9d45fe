/** Counters, streams and the status of a whole Weir: a primary, two processes, a real database. */
import { isDeepStrictEqual } from 'node:util';
import { expect, test } from 'vitest';
import { addPerson } from '../../helpers/people.ts';
import { startSender } from '../../helpers/sender.ts';
import { shared } from '../../helpers/shared.ts';
import { openStream } from '../../helpers/stream.ts';
import { until } from '../../helpers/wait.ts';
import { asApp, kill, startWeir } from '../../helpers/weir.ts';

const password = 'correct horse battery staple';
const weir = shared(() => startWeir({ ADMIN_EMAIL: 'first@example.org', ADMIN_PASSWORD: password }));
const webhook = shared(() => weir.addWebhook());
const site = shared(async () => asApp(weir));
const operator = shared(() => addPerson(site, 'operator'));

/** The connection may have been to a process that was just killed. */
const counters = () =>
  until(() =>
    operator.api('GET', '/api/v1/counters').then(
      ({ body }) => body,
      () => null,
    ),
  );

/** Sends on new connections until this many are accepted or refused; returns the number. */
async function send(count: number, secret = webhook.secret): Promise<number> {
  const sender = startSender({ port: weir.port, ...webhook, secret, lanes: 4, keepAlive: false });
  await until(() => sender.accepted.size + sender.refusals.length >= count);
  await sender.stop();
  return sender.accepted.size + sender.refusals.length;
}

test('counters are summed over all processes, and do not fall when one exits', async () => {
  const accepted = await send(40);
  const rejected = await send(10, 'a wrong secret');
  const totals = { accepted, rejected, limited: 0, refused: 0, failed: 0 };
  await until(async () => (await counters()).latest?.totals.accepted >= accepted);
  await until(async () => (await counters()).latest.totals.rejected >= rejected);
  await until(async () => (await counters()).latest.processes.length === 2);
  const before = (await counters()).latest;
  expect(before.totals).toMatchObject(totals);
  for (const { state, database } of before.processes) expect([state, database]).toEqual(['serving', 'up']);

  const [victim] = await weir.servingPids();
  kill(victim!, 'SIGKILL');
  await until(async () => {
    const { processes } = (await counters()).latest;
    return processes.length === 2 && processes.every(({ pid }: { pid: number }) => pid !== victim);
  });
  expect((await counters()).latest.totals).toMatchObject(totals);
  const more = await send(20);
  await until(async () => (await counters()).latest.totals.accepted >= accepted + more);

  const { latest, history } = await counters();
  expect(latest.totals.accepted).toBe(accepted + more);
  const seconds = history as Record<string, number>[];
  expect(seconds.reduce((sum, second) => sum + second.accepted!, 0)).toBe(accepted + more);
  expect(Math.min(...seconds.map((second) => second.accepted!), ...seconds.map((second) => second.requests!))).toBe(0);
  expect(seconds.some((second) => second.commits! > 0 && second.commit_p99_ms! > 0)).toBe(true);
});

test('a stream continues after a restart, and the counters are those of the last minutes', async () => {
  const headers = { cookie: operator.cookie };
  const stream = await openStream(`${site.url}/api/v1/stream`, headers);
  await send(3);
  await until(() => stream.of('event').length >= 3);
  const lastId = stream.frames.findLast(({ id }) => id !== undefined)!.id!;
  weir.signal('SIGHUP');
  await until(() => stream.ended);
  const known = new Set(stream.of('event').map(({ id }) => id));
  const missed = await send(5);
  await until(() => weir.events('restarted').length === 1);

  const again = await openStream(`${site.url}/api/v1/stream`, { ...headers, 'last-event-id': lastId });
  const more = await send(2);
  const ids = () => again.of('event').map(({ id }) => id as string);
  await until(() => ids().filter((id) => !known.has(id)).length >= missed + more);
  expect(new Set(ids()).size).toBe(ids().length);
  expect((await operator.api('GET', '/api/v1/counters')).body.history.length).toBeGreaterThan(3);
  again.leave();
});

test('the status has everything but secrets, and no false alarm', async () => {
  const serving = (await weir.servingPids()).sort();
  const pidsOf = (body: { processes: { pid: number }[] }) => body.processes.map(({ pid }) => pid).sort();
  // The restart above has just ended: its last process is reported in the next second.
  const { text, body } = await until(async () => {
    const answer = await operator.api('GET', '/api/v1/status');
    const isWhole = answer.body.doctor.state === 'done' && isDeepStrictEqual(pidsOf(answer.body), serving);
    return isWhole && answer;
  });
  expect(body.versions).toMatchObject({ weir: '1.0.0', node: process.versions.node });
  expect(body.versions.postgres).toMatch(/^15\./);
  expect(body.database.kind).toBe('embedded');
  expect(body.schema.pending).toEqual([]);
  expect(body.partitions.last > new Date().toISOString().slice(0, 10)).toBe(true);
  expect(body.uptime_seconds).toBeGreaterThan(0);

  const setting = (name: string) => body.settings.find((row: { name: string }) => row.name === name);
  expect(setting('PORT')).toMatchObject({ value: String(weir.port), secret: false });
  expect(setting('ADMIN_PASSWORD')).toMatchObject({ value: null, is_set: true, secret: true });
  expect(setting('SECRETS_KEY')).toMatchObject({ value: null, is_set: false });
  expect(text).not.toContain(password);

  const checks = body.doctor.checks as { name: string; state: string; finding: string }[];
  expect(checks.filter(({ state }) => state === 'problem')).toEqual([]);
  expect(checks.find(({ name }) => name === 'port')!.finding).toContain('used by Weir itself');
  expect(checks.map(({ name }) => name)).toContain('stored_secrets');
});

test('the status is computed once for concurrent requests', async () => {
  const answers = await Promise.all(Array.from({ length: 8 }, () => operator.api('GET', '/api/v1/status')));
  // One for each process at most.
  expect(new Set(answers.map(({ body }) => body.doctor.at)).size).toBeLessThanOrEqual(2);
});
