/** The thread that evaluates filters: limits on time and memory. */
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { FilterJudge } from '../../../server/deliver/claims/judge.ts';
import { type CandidateEvent, verdicts } from '../../../server/model/filters/evaluate.ts';

const { passed, excluded, failed, undecided } = verdicts;
const workerFile = fileURLToPath(new URL('../../../dist/workers/filter.js', import.meta.url));
/** For a machine with more work than processors. */
const PATIENT_MS = 60_000;
let judge: FilterJudge;
afterEach(() => judge.close());

const event = (body: unknown, filter = 0): CandidateEvent => ({
  filter,
  webhook: 'orders',
  headers: Buffer.from('host: example.org\nx-kind: a'),
  contentType: 'application/json',
  eventType: null,
  bytes: 3,
  body: Buffer.from(JSON.stringify(body)),
});

test('each event is judged by its filter', async () => {
  judge = new FilterJudge(workerFile, PATIENT_MS);
  const filters = ['body.a == 1', 'headers["x-kind"] == "b"', 'body.missing > 1', 'nonsense'];
  const { verdicts: given, failures } = await judge.judge(filters, [
    event({ a: 1 }),
    event({ a: 2 }),
    event({}, 1),
    event({}, 2),
    event({}, 3),
  ]);
  expect(given).toEqual([passed, excluded, excluded, failed, failed]);
  expect(failures).toEqual([
    { filter: 2, reason: 'No such key: missing', slow: 0, broken: false },
    { filter: 3, reason: expect.stringMatching(/^Character 1: unknown variable: nonsense/), slow: 0, broken: true },
  ]);
});

/** Takes exponential time on 60 times a. */
const slowFilter = 'body.text.matches("^(a+)+$")';
const slow = event({ text: `${'a'.repeat(60)}b` });
const quick = event({ text: 'aaa' });

test('an evaluation that takes too long is given up, and only its event fails', async () => {
  // A task without time left ends after the event that is given up.
  judge = new FilterJudge(workerFile, 100, { taskTimeoutMs: 0 });
  const { verdicts: given, failures } = await judge.judge([slowFilter], [slow, quick, slow]);
  expect(given).toEqual([failed, undecided, undecided]);
  expect(failures).toEqual([{ filter: 0, reason: 'it took longer than 100 ms', slow: 1, broken: false }]);
  expect((await judge.judge([slowFilter], [quick])).verdicts).toEqual([passed]);
});

test('a task that waited for the thread until the time limit blames none of its events', async () => {
  judge = new FilterJudge(workerFile, PATIENT_MS, { threadTimeoutMs: 500, threadsMax: 1 });
  const [, waiting] = await Promise.all([[slow], [quick, quick]].map((events) => judge.judge([slowFilter], events)));
  expect(waiting).toEqual({ verdicts: [undecided, undecided], failures: [] });
});

test('a task over the limit of waiting ones is undecided at once', async () => {
  judge = new FilterJudge(workerFile, PATIENT_MS, { threadTimeoutMs: 500, queueMax: 1, threadsMax: 1 });
  const [first, , over] = [slow, slow, slow].map((event) => judge.judge([slowFilter], [event]));
  expect(await Promise.race([first, over])).toEqual({ verdicts: [undecided], failures: [] });
  expect(await Promise.race([first, 'still judged'])).toBe('still judged');
  await first;
});

test('a filter that holds its thread does not hold the others', async () => {
  judge = new FilterJudge(workerFile, PATIENT_MS);
  const hostile = judge.judge([slowFilter], [slow]);
  for (let i = 0; i < 3; i++) expect((await judge.judge(['body.text == "aaa"'], [quick])).verdicts).toEqual([passed]);
  expect(await Promise.race([hostile, 'still judged'])).toBe('still judged');
});

test('a thread that runs out of memory is replaced, and only the event at which it died fails', async () => {
  judge = new FilterJudge(workerFile, PATIENT_MS, { heapMegabytesMax: 32 });
  const list = Array.from({ length: 20_000 }, (_, i) => i);
  const filter = 'size(body.list.map(a, body.list.map(b, body.list.map(c, [a, b, c])))) > 0';
  const small = event({ list: [1] });
  const { verdicts: given, failures } = await judge.judge([filter], [small, event({ list }), small]);
  expect(given).toEqual([passed, failed, undecided]);
  expect(failures).toEqual([
    { filter: 0, reason: expect.stringMatching(/^the thread ended: /), slow: 1, broken: false },
  ]);
  expect((await judge.judge([filter], [small])).verdicts).toEqual([passed]);
});

test('a body that is deeply nested fails at most its own event', async () => {
  judge = new FilterJudge(workerFile, PATIENT_MS);
  const deep = { ...event(null), body: Buffer.from('['.repeat(200_000) + ']'.repeat(200_000)) };
  const { verdicts: given } = await judge.judge(['body == body', 'body == [1]'], [deep, event([1], 1)]);
  expect([[passed, failed].includes(given[0] as 1 | 3), given[1]]).toEqual([true, passed]);
});
