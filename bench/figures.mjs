/**
 * Writes the figures of the README and the guides from the newest runs in bench/results: `node bench/figures.mjs`. A figure of a sentence is
 * between `<!--=NAME-->` and `<!--/-->`; the tables of a scenario are between `<!-- NAME:begin -->` and `<!-- NAME:end -->`.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
/** Documents with figures of speed. */
export const documents = ['README.md', 'views/docs/scaling.md', 'views/docs/benchmarks.md'];

/** Load of the machine up to which other programs did not decide what was measured. */
const LOAD_MAX = 0.5;
const CPU = ['eventLoop', 'signatures', 'other', 'postgres'];
const JOB_CPU = ['client', 'weir', 'store'];
function runsOf(scenario) {
  const lines = readFileSync(`${root}/bench/results/${scenario}.jsonl`, 'utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line));
}

/** The newest run of a scenario: its origin, and its measures by name. */
export function newest(scenario) {
  const { at, runs, machine, results } = runsOf(scenario).at(-1);
  const day = new Date(at).toLocaleDateString('en-GB', {
    day: 'numeric',
    month: 'long',
    year: 'numeric',
    timeZone: 'UTC',
  });
  const measures = Object.fromEntries(results.map((result) => [result.name, result]));
  return {
    from: `\`npm run bench -- ${scenario}\`, ${day}, commit ${machine.commit}, medians of ${runs} rounds`,
    measures,
  };
}

const [peers, receive, drain, memory] = ['peers', 'receive', 'drain', 'memory'].map(newest);

function median({ measures }, name) {
  if (measures[name] === undefined) throw new Error(`the newest run has no measure ${name}`);
  return measures[name].median;
}

const sum = (run, name, parts) => parts.reduce((us, part) => us + median(run, `${name}: ${part}`), 0);

/** Three significant digits from a hundred on, two below. */
function rounded(value) {
  if (value === 0) return '0';
  return value >= 99.5 ? Number(value.toPrecision(3)).toLocaleString('en-GB') : value.toPrecision(2);
}

const rate = (run, name) => median(run, `${name}: rate`);
const over = (of, to) => rounded(of / to);
const WEIR = 'Weir, 1 process';
const BULLMQ = 'Fastify, 2 processes, BullMQ';
const INSERT = 'Fastify, 2 processes, an INSERT a request';
const jobs = (name) => median(peers, `${name}, concurrency 10: jobs`);

/** Rates of one process in the runs without other load. */
const quiet = [...runsOf('receive'), ...runsOf('peers')]
  .filter(({ load }) => load < LOAD_MAX)
  .map(({ results }) => results.find(({ name }) => name === `${WEIR}: rate`).median);
const presets = JSON.parse(readFileSync(`${root}/server/model/signatures/presets.json`, 'utf8'));

/** The figures of sentences. @type {Record<string, string>} */
export const figures = {
  senders: String(presets.filter(({ isGeneral }) => !isGeneral).length),
  'receive-low': rounded(Math.min(...quiet)),
  'receive-high': rounded(Math.max(...quiet)),
  'second-process': over(rate(peers, 'Weir, 2 processes'), rate(peers, WEIR)),
  'memory-1kib': rounded(median(memory, '1 KiB, 256 connections: highest')),
  'drain-four': rounded(median(drain, 'Weir, 4 consumers, 500 a claim')),
  'drain-one': rounded(median(drain, 'Weir, 1 a claim')),
  'drain-library': over(median(drain, 'client library, concurrency 1'), median(drain, 'Weir, 1 a claim')),
  'over-bullmq': over(rate(peers, WEIR), rate(peers, BULLMQ)),
  'over-insert': over(rate(peers, WEIR), rate(peers, INSERT)),
  'cpu-of-bullmq': over(sum(peers, WEIR, CPU), sum(peers, BULLMQ, CPU)),
  'cpu-of-insert': over(sum(peers, WEIR, CPU), sum(peers, INSERT, CPU)),
  'jobs-over-bullmq': over(jobs('agent.run'), jobs('BullMQ')),
  'jobs-over-graphile': over(jobs('agent.run'), jobs('graphile-worker')),
  'batches-over-jobs': over(jobs('graphile-worker, batches'), jobs('agent.run')),
  'commit-weir': rounded(median(peers, 'agent.run: p50 from commit')),
  'commit-bullmq': rounded(median(peers, 'BullMQ: p50 from commit')),
  'commit-graphile': rounded(median(peers, 'graphile-worker: p50 from commit')),
};

function table(header, rows) {
  const rule = header.map((_, column) => (column === 0 ? '---' : '---:'));
  return [header, rule, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function spread(run, name) {
  const { low, high } = run.measures[name];
  return `${rounded(median(run, name))} (${rounded(low)} to ${rounded(high)})`;
}

/** Names of the measures of the newest run that have this end, without it. */
export function namesEndingIn({ measures }, end) {
  return Object.keys(measures).flatMap((name) => (name.endsWith(end) ? name.slice(0, -end.length) : []));
}

function receiving(run, last = []) {
  const names = namesEndingIn(run, ': rate').filter((name) => !/connections?$|\d (B|KiB)|fields$/.test(name));
  return table(
    ['receiving, 256 connections', 'requests/s', 'p99', 'CPU of a request, of that the store', ...last],
    names.map((name) => [
      name,
      spread(run, `${name}: rate`),
      `${rounded(median(run, `${name}: p99`))} ms`,
      `${rounded(sum(run, name, CPU))}, ${rounded(median(run, `${name}: postgres`))} µs`,
      ...last.map(() => `${rounded(median(run, `${name}: resident`))} MB`),
    ]),
  );
}

function consuming() {
  const of = (name, each) => [1, 10, 100].map((concurrency) => rounded(each(`${name}, concurrency ${concurrency}`)));
  const columns = ['jobs/s, 1, 10, 100 at a time', 'CPU of a job', '4 consumers of 10: jobs/s, CPU'];
  return table(
    ['consuming with an empty handler', ...columns, 'commit to handler at 100/s, p50, p95'],
    namesEndingIn(peers, ', concurrency 10: jobs').map((name) => [
      name,
      of(name, (each) => median(peers, `${each}: jobs`)).join('; '),
      `${of(name, (each) => sum(peers, each, JOB_CPU)).join(', ')} µs`,
      `${rounded(median(peers, `${name}, concurrency 10, 4 consumers: jobs`))}; ${rounded(sum(peers, `${name}, concurrency 10, 4 consumers`, JOB_CPU))} µs`,
      `${[50, 95].map((p) => rounded(median(peers, `${name}: p${p} from commit`))).join(', ')} ms`,
    ]),
  );
}

function draining() {
  const names = Object.keys(drain.measures).filter((name) => !name.includes(': '));
  return table(
    ['draining a backlog', 'deliveries/s', 'CPU of Postgres, Weir, client'],
    names.map((name) => [
      name,
      spread(drain, name),
      `${['postgres', 'weir', 'client'].map((part) => rounded(median(drain, `${name}: ${part}`))).join(', ')} µs`,
    ]),
  );
}

/** The tables of each scenario, by the name of their region. @type {Record<string, string>} */
export const regions = {
  'bench-peers': `${peers.from}. CPU is the processor time of all parts but the load generator.\n\n${receiving(peers)}\n\n${consuming()}`,
  'bench-drain': `${drain.from}.\n\n${draining()}`,
  'bench-receive': `${receive.from}.\n\n${receiving(receive, ['memory of a process'])}`,
};

/** The document with the figures of the newest runs. Throws for a name that is not known. */
export function withFigures(text) {
  const filled = text.replace(/<!--=([\w-]+)-->.*?<!--\/-->/gs, (_, name) => {
    if (figures[name] === undefined) throw new Error(`there is no figure ${name}`);
    return `<!--=${name}-->${figures[name]}<!--/-->`;
  });
  return Object.entries(regions).reduce(
    (page, [name, content]) =>
      page.replace(
        new RegExp(`(<!-- ${name}:begin -->\n).*?(\n<!-- ${name}:end -->)`, 's'),
        (_, begin, end) => begin + content + end,
      ),
    filled,
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const path of documents.map((name) => `${root}/${name}`).filter(existsSync))
    writeFileSync(path, withFigures(readFileSync(path, 'utf8')));
