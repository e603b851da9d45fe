/** Formats the scaling curve as text: a table, the checks, and an interpretation. */
import { table } from '../../base/command/io.ts';
import { faultsOf, type Run } from '../../operate/load/run.ts';
import { WARM_UP_SECONDS } from '../../operate/load/window.ts';
import type { CurveOrder } from './curve.ts';

/** The document of `--json`. */
interface BenchReport {
  /** Cores of this machine, shared by Weir, Postgres and the senders. */
  cores: number;
  /** Load average of the minute before the run: tasks of other programs that use the cores. */
  load_before: number;
  /** The database was in memory (tmpfs), where fsync costs nothing. */
  in_memory: boolean;
  seconds: number;
  warm_up_seconds: number;
  body_bytes: number;
  connections: number;
  senders: number;
  /** `times_first`: requests/s divided by the requests/s of the first run. */
  runs: (Run & { times_first: number | null })[];
  /** Reasons why runs are invalid, one sentence each. */
  faults: string[];
}

/** Speed-up below which another step is not worthwhile. */
const GAIN_MIN = 1.1;
/** Share above which the cores or the sender threads count as fully used. */
const FULL_LOAD_MIN = 0.9;
/** Share of the cores above which other programs decide what is measured. */
const BUSY_SHARE = 0.1;

/** Conditions of the measurement. */
type Machine = Pick<BenchReport, 'cores' | 'load_before' | 'in_memory'>;

export function reportOf(order: CurveOrder, runs: readonly Run[], machine: Machine): BenchReport {
  const first = runs[0]?.requests_per_second ?? 0;
  return {
    ...machine,
    seconds: order.seconds,
    warm_up_seconds: WARM_UP_SECONDS,
    body_bytes: order.bodyBytes,
    connections: order.connections,
    senders: order.senders,
    runs: runs.map((run) => ({
      ...run,
      times_first: first === 0 ? null : Number((run.requests_per_second / first).toFixed(2)),
    })),
    faults: runs.flatMap(faultsOf),
  };
}

/** Formats the report as text. Needs at least one run. */
export function describeReport(report: BenchReport): string {
  const { body_bytes, connections, senders, seconds, runs, faults } = report;
  const accepted = runs.reduce((sum, run) => sum + run.accepted, 0);
  const stored = runs.reduce((sum, run) => sum + run.stored, 0);
  const rows = runs.map(
    ({ workers, requests_per_second, times_first, latency_ms, process_memory_mb, cores_used, cpu_us }) => [
      String(workers),
      whole(requests_per_second),
      times_first?.toFixed(2) ?? '-',
      String(latency_ms.p50 ?? '-'),
      String(latency_ms.p99 ?? '-'),
      whole(process_memory_mb),
      `${cores_used.weir} + ${cores_used.postgres} + ${cores_used.senders}`,
      cpu_us === null
        ? '-'
        : `${cpu_us.event_loop} + ${cpu_us.signatures} + ${cpu_us.other_threads} + ${cpu_us.postgres}`,
    ],
  );
  const header = ['PROCESSES', 'REQUESTS/S', 'TIMES THE FIRST', 'P50 MS', 'P99 MS', 'MB PER PROCESS'];
  return [
    `Signed requests of ${whole(body_bytes)} bytes over ${whole(connections)} connections, each sending its next request after the response,`,
    `from ${senders} ${senders === 1 ? 'sender' : 'senders'}; ${seconds} s a line after ${WARM_UP_SECONDS} s of warm-up; fsync on.`,
    '',
    table([...header, 'CORES OF WEIR + POSTGRES + SENDERS', 'CPU US'], rows),
    'CPU us: processor time per request in microseconds: event loop + signature threads + other threads of Weir + Postgres.',
    `Answered 202, warm-up included: ${whole(accepted)}. Stored: ${whole(stored)}.`,
    ...(runs.length > 1 ? ['', drawBars(runs).trimEnd()] : []),
    '',
    ...(faults.length > 0 ? faults : interpret(report)),
    '',
  ].join('\n');
}

/** Draws the curve as an SVG document. Needs at least one run. */
export function drawReport({ body_bytes, connections, cores, load_before, runs }: BenchReport): string {
  const load = `${whole(body_bytes)} bytes over ${whole(connections)} connections`;
  return drawSvg(runs, `weir bench: ${load}, ${cores} cores, load before ${load_before}`);
}

/** Interprets the curve, one sentence for each finding. */
export function interpret({ cores, in_memory, senders, runs }: BenchReport): string[] {
  const bySize = runs.toSorted((a, b) => a.workers - b.workers);
  const last = bySize.at(-1)!;
  const others = Math.max(...runs.map(({ cores_used }) => cores_used.others));
  if (others > BUSY_SHARE * cores)
    return [
      `The machine is busy: other programs used ${others.toFixed(1)} of its ${cores} cores during a measurement.`,
      'These figures show what Weir reaches beside them, and say neither what this machine reaches nor which WORKERS is best.',
      'Stop the other programs, or measure when they are idle.',
    ];
  return [
    `The ${cores} ${cores === 1 ? 'core is' : 'cores are'} shared by Weir, Postgres and the senders.`,
    ...(bySize.length > 1 ? [flatteningOf(bySize)] : []),
    limitOf(last, cores),
    ...(runs.some(({ cores_used }) => cores_used.senders > FULL_LOAD_MIN * senders)
      ? [`The senders may have been the limit: they were fully busy. Try --senders ${senders + 1}.`]
      : []),
    ...(in_memory
      ? [
          'The database was in memory (tmpfs), where fsync costs nothing: set TMPDIR to a directory on the disk of DATA_DIR.',
        ]
      : []),
  ];
}

function flatteningOf(runs: readonly Run[]): string {
  const best = runs.reduce((a, b) => (b.requests_per_second > a.requests_per_second ? b : a));
  const last = runs.find((run, at) => {
    const next = runs[at + 1];
    return next !== undefined && next.requests_per_second < run.requests_per_second * GAIN_MIN;
  });
  const most = `the maximum was ${whole(best.requests_per_second)} requests/s with WORKERS=${best.workers}`;
  if (last === undefined) return `The curve rises to the end: ${most}.`;
  const next = runs[runs.indexOf(last) + 1]!;
  const times = (next.requests_per_second / last.requests_per_second).toFixed(2);
  return `The curve flattens at WORKERS=${last.workers}: WORKERS=${next.workers} reached ${times} times as much; ${most}.`;
}

function limitOf({ workers, cores_used: { weir, postgres, senders } }: Run, cores: number): string {
  const used = weir + postgres + senders;
  const share = `${used.toFixed(1)} of ${cores} cores were in use with WORKERS=${workers}`;
  return used > FULL_LOAD_MIN * cores
    ? `${share}: cores are the limit; a sender on another machine would free ${senders.toFixed(1)} of them for Weir.`
    : `${share}: Weir also waited for the disk, for other programs, or for requests (try more --connections).`;
}

function whole(value: number): string {
  return Math.round(value).toLocaleString('en-GB');
}

type Point = Pick<Run, 'workers' | 'requests_per_second'>;

const BAR_CHARACTERS = 50;

/** One line for each number of processes, lowest first. `|` marks the first figure times the processes, where it fits. */
export function drawBars(runs: readonly Point[]): string {
  const points = sorted(runs);
  const most = Math.max(...points.map((point) => point.requests_per_second), 1);
  const width = String(points.at(-1)!.workers).length;
  const lines = points.map((point) => {
    const length = Math.round((point.requests_per_second / most) * BAR_CHARACTERS);
    const mark = Math.round((proportional(points, point) / most) * BAR_CHARACTERS);
    const bar = '█'.repeat(length).padEnd(BAR_CHARACTERS + 1);
    const marked = mark > length && mark <= BAR_CHARACTERS ? `${bar.slice(0, mark)}|${bar.slice(mark + 1)}` : bar;
    return `${String(point.workers).padStart(width)}  ${marked} ${figure(point.requests_per_second)}\n`;
  });
  return `Requests/s by WORKERS; | is the first figure in proportion:\n${lines.join('')}`;
}

const PLOT = { width: 640, height: 360, left: 80, right: 20, top: 40, bottom: 50 };
const TICKS = 5;

/** An SVG document that needs no style sheet, script or font of others. @param caption of the conditions, one line */
export function drawSvg(runs: readonly Point[], caption: string): string {
  const points = sorted(runs);
  const workersMax = points.at(-1)!.workers;
  const step = niceStep(Math.max(...points.map((point) => point.requests_per_second), 1) / TICKS);
  const top = step * TICKS;
  const x = (workers: number) => PLOT.left + (workers / workersMax) * (PLOT.width - PLOT.left - PLOT.right);
  const y = (rate: number) => PLOT.height - PLOT.bottom - (rate / top) * (PLOT.height - PLOT.top - PLOT.bottom);
  const place = (workers: number, rate: number) => `${x(workers).toFixed(1)},${y(rate).toFixed(1)}`;
  const label = (at: string, anchor: string, content: string) =>
    `<text ${at} text-anchor="${anchor}">${content}</text>`;
  // Up to where proportional growth leaves the plot.
  const first = points[0]!.requests_per_second / points[0]!.workers;
  const end = first === 0 ? workersMax : Math.min(workersMax, top / first);
  const grid = Array.from({ length: TICKS + 1 }, (_, index) => index * step).flatMap((rate) => [
    `<path d="M${place(0, rate)}H${PLOT.width - PLOT.right}" stroke="#ddd"/>`,
    label(`x="${PLOT.left - 8}" y="${(y(rate) + 4).toFixed(1)}"`, 'end', figure(rate)),
  ]);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${PLOT.width} ${PLOT.height}" font-family="sans-serif" font-size="12">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    label(`x="${PLOT.left}" y="20"`, 'start', escaped(caption)),
    ...grid,
    `<path d="M${place(0, 0)}L${place(end, end * first)}" stroke="#888" stroke-dasharray="4 4" fill="none"/>`,
    `<polyline points="${points.map((point) => place(point.workers, point.requests_per_second)).join(' ')}" stroke="#06c" stroke-width="2" fill="none"/>`,
    ...points.flatMap(({ workers, requests_per_second }) => [
      `<circle cx="${x(workers).toFixed(1)}" cy="${y(requests_per_second).toFixed(1)}" r="3" fill="#06c"><title>${figure(requests_per_second)}</title></circle>`,
      label(`x="${x(workers).toFixed(1)}" y="${PLOT.height - PLOT.bottom + 18}"`, 'middle', String(workers)),
    ]),
    label(`x="${PLOT.width / 2}" y="${PLOT.height - 10}"`, 'middle', 'WORKERS; requests/s; dashed: in proportion'),
    '</svg>\n',
  ].join('\n');
}

function sorted(runs: readonly Point[]): Point[] {
  return runs.toSorted((a, b) => a.workers - b.workers);
}

function proportional(points: readonly Point[], { workers }: Point): number {
  const [first] = points;
  return (first!.requests_per_second / first!.workers) * workers;
}

/** The smallest of 1, 2 and 5 times a power of ten that is at least `value`. */
function niceStep(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= value)!;
}

function figure(value: number): string {
  return Math.round(value).toLocaleString('en-GB');
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
