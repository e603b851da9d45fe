/** Formats the scaling curve as text: a table, the checks, and an interpretation. */
import { table, wholeText } from '../../base/command/io.ts';
import { type BenchRun, faultsOf } from '../../operate/load/results.ts';
import { WARM_UP_SECONDS } from '../../operate/load/window.ts';

export interface CurveOrder {
  /** Numbers of serving processes, in measuring order. */
  workers: readonly number[];
  /** Length of one measured window. */
  seconds: number;
  bodyBytes: number;
  connections: number;
  senders: number;
}

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
  runs: (BenchRun & { times_first: number | null })[];
  /** Reasons why runs are invalid, one sentence each. */
  faults: string[];
}

/** Speed-up below which another step is not worthwhile. */
const GAIN_MIN = 1.1;
/** Share above which the cores or the sender threads count as fully used. */
const FULL_LOAD_MIN = 0.9;
/** Share of the cores above which other programs decide what is measured. */
const BUSY_SHARE = 0.1;

type Machine = Pick<BenchReport, 'cores' | 'load_before' | 'in_memory'>;

/** Builds the document of `--json`, also without a run. */
export function benchReportOf(order: CurveOrder, runs: readonly BenchRun[], machine: Machine): BenchReport {
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
      wholeText(requests_per_second),
      times_first?.toFixed(2) ?? '-',
      String(latency_ms.p50 ?? '-'),
      String(latency_ms.p99 ?? '-'),
      wholeText(process_memory_mb),
      `${cores_used.weir} + ${cores_used.postgres} + ${cores_used.senders}`,
      cpu_us === null
        ? '-'
        : `${cpu_us.event_loop} + ${cpu_us.signatures} + ${cpu_us.other_threads} + ${cpu_us.postgres}`,
    ],
  );
  const header = ['PROCESSES', 'REQUESTS/S', 'TIMES THE FIRST', 'P50 MS', 'P99 MS', 'MB PER PROCESS'];
  return [
    `Signed requests of ${wholeText(body_bytes)} bytes over ${wholeText(connections)} connections, each sending its next request after the response,`,
    `from ${senders} ${senders === 1 ? 'sender' : 'senders'}; ${seconds} s a line after ${WARM_UP_SECONDS} s of warm-up; fsync on.`,
    '',
    table([...header, 'CORES OF WEIR + POSTGRES + SENDERS', 'CPU US'], rows),
    'CPU us: processor time per request in microseconds: event loop + signature threads + other threads of Weir + Postgres.',
    `Answered 202, warm-up included: ${wholeText(accepted)}. Stored: ${wholeText(stored)}.`,
    ...(runs.length > 1 ? ['', drawBars(runs).trimEnd()] : []),
    '',
    ...(faults.length > 0 ? faults : interpret(report)),
    '',
  ].join('\n');
}

/** Draws the curve as an SVG document. Needs at least one run. */
export function drawReport({ body_bytes, connections, cores, load_before, runs }: BenchReport): string {
  const load = `${wholeText(body_bytes)} bytes over ${wholeText(connections)} connections`;
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

function flatteningOf(runs: readonly BenchRun[]): string {
  const best = runs.reduce((a, b) => (b.requests_per_second > a.requests_per_second ? b : a));
  const last = runs.find((run, at) => {
    const next = runs[at + 1];
    return next !== undefined && next.requests_per_second < run.requests_per_second * GAIN_MIN;
  });
  const most = `the maximum was ${wholeText(best.requests_per_second)} requests/s with WORKERS=${best.workers}`;
  if (last === undefined) return `The curve rises to the end: ${most}.`;
  const next = runs[runs.indexOf(last) + 1]!;
  const times = (next.requests_per_second / last.requests_per_second).toFixed(2);
  return `The curve flattens at WORKERS=${last.workers}: WORKERS=${next.workers} reached ${times} times as much; ${most}.`;
}

function limitOf({ workers, cores_used: { weir, postgres, senders } }: BenchRun, cores: number): string {
  const used = weir + postgres + senders;
  const share = `${used.toFixed(1)} of ${cores} cores were in use with WORKERS=${workers}`;
  return used > FULL_LOAD_MIN * cores
    ? `${share}: cores are the limit; a sender on another machine would free ${senders.toFixed(1)} of them for Weir.`
    : `${share}: Weir also waited for the disk, for other programs, or for requests (try more --connections).`;
}

type Point = Pick<BenchRun, 'workers' | 'requests_per_second'>;

const BAR_CHARACTERS = 50;

/** One line for each number of processes, lowest first. `|` marks the first figure in proportion, where it lies right of the bar. */
export function drawBars(runs: readonly Point[]): string {
  const points = sorted(runs);
  const most = Math.max(...points.map((point) => point.requests_per_second), 1);
  const width = String(points.at(-1)!.workers).length;
  const lines = points.map((point) => {
    const length = Math.round((point.requests_per_second / most) * BAR_CHARACTERS);
    const mark = Math.round((proportional(points, point) / most) * BAR_CHARACTERS);
    const bar = '█'.repeat(length).padEnd(BAR_CHARACTERS + 1);
    const marked = mark > length && mark <= BAR_CHARACTERS ? `${bar.slice(0, mark)}|${bar.slice(mark + 1)}` : bar;
    return `${String(point.workers).padStart(width)}  ${marked} ${wholeText(point.requests_per_second)}\n`;
  });
  return `Requests/s by WORKERS; | is the first figure in proportion:\n${lines.join('')}`;
}

const [BAR_PIXELS, LEFT, TOP, LINE] = [480, 60, 40, 24];

/**
 * The same bars as an SVG document that needs no style sheet, script or font of others.
 * @param caption conditions of the measurement, one line
 */
export function drawSvg(runs: readonly Point[], caption: string): string {
  const points = sorted(runs);
  const most = Math.max(...points.map((point) => point.requests_per_second), 1);
  const x = (rate: number) => (LEFT + (rate / most) * BAR_PIXELS).toFixed(1);
  const bars = points.map((point, row) => {
    const y = TOP + row * LINE;
    const [rate, mark] = [point.requests_per_second, proportional(points, point)];
    return [
      `<text x="${LEFT - 8}" y="${y + 13}" text-anchor="end">${point.workers}</text>`,
      `<path d="M${LEFT},${y}H${x(rate)}v16H${LEFT}z" fill="#06c"/>`,
      mark <= most ? `<path d="M${x(mark)},${y}v16" stroke="#888"/>` : '',
      `<text x="${x(rate)}" dx="6" y="${y + 13}">${wholeText(rate)}</text>`,
    ].join('');
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 ${TOP + points.length * LINE + 16}" font-family="sans-serif" font-size="12">`,
    `<rect width="100%" height="100%" fill="#fff"/><text x="8" y="20">${caption}; requests/s by WORKERS</text>`,
    ...bars,
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
