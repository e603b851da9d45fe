/** Draws the scaling curve: as bars for the terminal, and as an SVG. Both show what proportional growth would reach. */
import type { Run } from '../../operate/load/run.ts';

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
