/** Draws views/docs/speed.svg from the newest run in bench/results/peers.jsonl: `node bench/plot.mjs`. */
import { writeFileSync } from 'node:fs';
import { namesEndingIn, newest } from './figures.mjs';

const peers = newest('peers');
const found = (name) => peers.measures[name];

const receiving = {
  names: namesEndingIn(peers, ': rate').filter((name) => !name.startsWith('bare')),
  rate: 'rate',
  parts: ['eventLoop', 'signatures', 'other', 'postgres'],
};
const consuming = {
  names: namesEndingIn(peers, ', concurrency 10: jobs').map((name) => `${name}, concurrency 10`),
  rate: 'jobs',
  parts: ['client', 'weir', 'store'],
};
const colours = {
  eventLoop: '#2563eb',
  signatures: '#0d9488',
  other: '#7c93b8',
  client: '#7c3aed',
  weir: '#2563eb',
  postgres: '#d97706',
  store: '#d97706',
};

const LEFT = 300;
const WIDTH = 530;
const ROW = 26;
const HEIGHT = 16;
const text = (x, y, content, more = '') => `<text x="${x}" y="${y}"${more}>${content}</text>`;
let top = 28;

/** One bar for each contestant. @param most value at the right end */
function panel({ names }, title, most, bar) {
  const rows = names.map((name, index) => {
    const y = top + 14 + index * ROW;
    return text(LEFT - 10, y + 13, name, ' text-anchor="end"') + bar(name, y, (value) => (value / most) * WIDTH);
  });
  const drawn = text(10, top, title, ' font-weight="600"') + rows.join('');
  top += names.length * ROW + 44;
  return drawn;
}

function ratePanel(group, title) {
  const rates = group.names.map((name) => found(`${name}: ${group.rate}`));
  return panel(group, title, Math.max(...rates.map(({ high }) => high)) * 1.1, (name, y, scale) => {
    const { median, low, high } = found(`${name}: ${group.rate}`);
    return (
      `<rect x="${LEFT}" y="${y}" width="${scale(median).toFixed(1)}" height="${HEIGHT}" fill="#2563eb"/>` +
      `<path d="M${(LEFT + scale(low)).toFixed(1)} ${y + HEIGHT / 2}H${(LEFT + scale(high)).toFixed(1)}" stroke="#888" stroke-width="3"/>` +
      text(LEFT + scale(high) + 8, y + 13, Math.round(median).toLocaleString('en'))
    );
  });
}

function timePanel(group, title) {
  const median = (name, part) => found(`${name}: ${part}`)?.median ?? 0;
  const total = (name) => group.parts.reduce((sum, part) => sum + median(name, part), 0);
  return panel(group, title, Math.max(...group.names.map(total)) * 1.1, (name, y, scale) => {
    let x = LEFT;
    const drawn = group.parts.map((part) => {
      const width = scale(median(name, part));
      x += width;
      return `<rect x="${(x - width).toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${HEIGHT}" fill="${colours[part]}"/>`;
    });
    return drawn.join('') + text(x + 8, y + 13, Math.round(total(name)).toLocaleString('en'));
  });
}

function key(entries) {
  const drawn = entries.map(
    ([label, colour], index) =>
      `<rect x="${LEFT + index * 150}" y="${top - 32}" width="12" height="12" fill="${colour}"/>` +
      text(LEFT + 18 + index * 150, top - 21, label),
  );
  top += 18;
  return drawn.join('');
}

const drawn = [
  ratePanel(receiving, 'Receiving: requests a second'),
  timePanel(receiving, 'Processor time of a request, in microseconds'),
  key([
    ['event loop', colours.eventLoop],
    ['signatures', colours.signatures],
    ['other threads', colours.other],
    ['Postgres or Redis', colours.postgres],
  ]),
  ratePanel(consuming, 'Consuming, ten at a time: jobs a second'),
  timePanel(consuming, 'Processor time of a job, in microseconds'),
  key([
    ['consumer', colours.client],
    ['Weir', colours.weir],
    ['Postgres or Redis', colours.postgres],
  ]),
];
const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 ${top - 20}" font-family="sans-serif" font-size="13" fill="#222">
<title>Weir beside what it is compared with: rates and processor time, receiving and consuming</title>
<rect width="920" height="${top - 20}" fill="#fff"/>
${drawn.join('\n')}
</svg>
`;
writeFileSync(new URL('../views/docs/speed.svg', import.meta.url), svg);
