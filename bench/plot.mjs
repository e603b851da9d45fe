/** Draws views/docs/speed.svg from the newest run in bench/results/receive.jsonl: `node bench/plot.mjs`. */
import { readFileSync, writeFileSync } from 'node:fs';

const lines = readFileSync(new URL('results/receive.jsonl', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n');
const { results } = JSON.parse(lines.at(-1));
const found = (name) => results.find((result) => result.name === name);

const contestants = [
  'Weir, 1 process',
  'Weir, 2 processes',
  'Fastify, 2 processes, an INSERT a request',
  'bare uWebSockets.js, 1 process',
];
const parts = [
  ['eventLoop', 'event loop', '#2563eb'],
  ['signatures', 'signatures', '#0d9488'],
  ['postgres', 'Postgres', '#d97706'],
];

const LEFT = 290;
const WIDTH = 540;
const ROW = 30;
const text = (x, y, content, more = '') => `<text x="${x}" y="${y}"${more}>${content}</text>`;

/** One bar for each contestant. @param most value at the right end */
function panel(top, title, most, bar) {
  const rows = contestants.map((name, index) => {
    const y = top + 16 + index * ROW;
    return text(LEFT - 10, y + 14, name, ' text-anchor="end"') + bar(name, y, (value) => (value / most) * WIDTH);
  });
  return text(10, top, title, ' font-weight="600"') + rows.join('');
}

const rates = contestants.map((name) => found(`${name}: rate`));
const rateBar = (name, y, scale) => {
  const { median, low, high } = found(`${name}: rate`);
  const middle = y + 9;
  return (
    `<rect x="${LEFT}" y="${y}" width="${scale(median).toFixed(1)}" height="18" fill="#2563eb"/>` +
    `<path d="M${(LEFT + scale(low)).toFixed(1)} ${middle}H${(LEFT + scale(high)).toFixed(1)}" stroke="#888" stroke-width="3"/>` +
    text(LEFT + scale(high) + 8, y + 14, Math.round(median).toLocaleString('en'))
  );
};
const totals = contestants.map((name) =>
  parts.reduce((sum, [part]) => sum + (found(`${name}: ${part}`)?.median ?? 0), 0),
);
const timeBar = (name, y, scale) => {
  let x = LEFT;
  const drawn = parts.map(([part, , colour]) => {
    const width = scale(found(`${name}: ${part}`)?.median ?? 0);
    x += width;
    return `<rect x="${(x - width).toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="18" fill="${colour}"/>`;
  });
  return drawn.join('') + text(x + 8, y + 14, totals[contestants.indexOf(name)].toFixed(1));
};

const second = 40 + contestants.length * ROW + 30;
const height = second + contestants.length * ROW + 60;
const key = parts.map(
  ([, label, colour], index) =>
    `<rect x="${LEFT + index * 130}" y="${height - 32}" width="12" height="12" fill="${colour}"/>` +
    text(LEFT + 18 + index * 130, height - 21, label),
);
const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 ${height}" font-family="sans-serif" font-size="13" fill="#222">
<title>Requests a second and processor time of a request</title>
<rect width="920" height="${height}" fill="#fff"/>
${panel(28, 'Requests a second', Math.max(...rates.map(({ high }) => high)) * 1.05, rateBar)}
${panel(second, 'Processor time of a request, in microseconds', Math.max(...totals) * 1.05, timeBar)}
${key.join('')}
</svg>
`;
writeFileSync(new URL('../views/docs/speed.svg', import.meta.url), svg);
