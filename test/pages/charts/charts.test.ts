/** Charts, the outages in them, and health strips: what each of the 96 cells shows, and where it leads. */
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { QUARTER_SECONDS, QUARTERS_SHOWN, quartersSince } from '../../../server/model/history.ts';
import { chart, niceCeiling } from '../../../server/pages/charts/chart.ts';
import { stripOf } from '../../../server/pages/charts/strip.ts';
import { bandsOf } from '../../../server/pages/charts/traffic.ts';
import { addOutages } from '../../../server/store/queries/alerts/issues.ts';
import { addHistory, type HistoryRow } from '../../../server/store/queries/webhooks/history.ts';
import { send, startAgentApp } from '../../helpers/agents.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const frame = { width: 100, height: 56 };

test('the newest point is at the right edge, the greatest value below the top', () => {
  const { lines, ticks } = chart({ a: [0, 4] }, 11, frame);
  expect(lines).toEqual([{ name: 'a', line: 'M90 56L100 6', area: 'M90 56L90 56L100 6L100 56Z' }]);
  expect(ticks).toEqual([
    { value: 0, y: 56 },
    { value: 2, y: 31 },
    { value: 4, y: 6 },
  ]);
});

test('without values the line has a gap, and a point between two gaps is a dash', () => {
  expect(chart({ a: [1, null, 1] }, 3, frame).lines[0]!.line).toBe('M0 6h1M100 6h1');
});

test('all series share one scale', () => {
  const { lines } = chart({ a: [10], b: [5] }, 2, frame);
  expect(lines.map(({ line }) => line)).toEqual(['M100 6h1', 'M100 31h1']);
});

test('no data is an empty chart', () => {
  expect(chart({ a: [] }, 300, frame).lines).toEqual([{ name: 'a', line: '', area: '' }]);
});

test.each([
  [0, 1],
  [1, 1],
  [3, 4],
  [41, 50],
  [50, 50],
  [51, 100],
  [28_300, 40_000],
])('the scale above %i ends at %i', (value, ceiling) => {
  expect(niceCeiling(value)).toBe(ceiling);
});

const [from, to] = [Date.parse('2026-11-25T00:00:00Z'), Date.parse('2026-11-25T10:00:00Z')];
const outage = (began_at: string, ended_at: string) => ({
  id: '',
  machine: '',
  refused: 0,
  spooled: 0,
  began_at: `2026-11-${began_at}Z`,
  ended_at: `2026-11-${ended_at}Z`,
});

test.each([
  ['before the chart', '24T01:00:00', '24T02:00:00', []],
  ['into the chart', '24T23:00:00', '25T01:00:00', [{ from: 0, to: 0.1 }]],
  ['within the chart', '25T05:00:00', '25T07:30:00', [{ from: 0.5, to: 0.75 }]],
  ['after its last point', '25T10:05:00', '25T10:06:00', [{ from: 1, to: 1 }]],
])('an outage %s', (_, began, ended, bands) => {
  expect(bandsOf([outage(began, ended)], [from, to])).toEqual(bands);
});

const QUARTER_MS = QUARTER_SECONDS * 1_000;
const sinceMs = Date.parse('2026-01-01T00:00:00Z');
const iso = (place: number) => new Date(sinceMs + place * QUARTER_MS).toISOString();

describe('a strip', () => {
  const nowMs = sinceMs + (QUARTERS_SHOWN - 1) * QUARTER_MS;
  const quarter = (place: number, good: number, bad: number) => ({ at: iso(place), good, bad });
  const strip = (quarters: ReturnType<typeof quarter>[], outages: { began_at: string; ended_at: string }[] = []) =>
    stripOf({
      quarters,
      words: { good: 'good', bad: 'bad' },
      trouble: 'failures',
      hrefOf: (from) => `/at/${from}`,
      outages: outages.map((outage) => ({ id: randomUUID(), machine: 'm', refused: 0, spooled: 0, ...outage })),
      nowMs,
    })!;
  const places = (cells: ReturnType<typeof strip>['cells']) =>
    cells.map(({ at }) => (Date.parse(at) - sinceMs) / QUARTER_MS);

  test('has a bar for each quarter of an hour, and a link for each with trouble', () => {
    const { cells, bars, label } = strip([quarter(1, 9, 0), quarter(2, 1_000, 7)]);
    expect(bars.quiet.match(/M/g)?.length).toBe(QUARTERS_SHOWN - 2);
    expect(cells).toEqual([{ x: 16, at: iso(2), text: '1,000 good, 7 bad', href: `/at/${iso(2)}` }]);
    expect(label).toBe('Last 24 hours: 1,009 good, 7 bad, failures in 1 of 96 quarter hours');
  });

  test.each([
    ['only good', 5, 0, [null, 8]],
    ['one bad of many', 1_000, 1, [6, 8]],
    ['half bad', 5, 5, [12, 12]],
    ['one good of many', 1, 1_000, [18, 18]],
    ['only bad', 0, 5, [24, null]],
  ])('draws %s so that each part can be seen', (_, good, bad, [badTo, goodFrom]) => {
    const { bars } = strip([quarter(0, good, bad)]);
    expect(bars.bad).toBe(badTo === null ? '' : `M1 0h6V${badTo}h-6z`);
    expect(bars.good).toBe(goodFrom === null ? '' : `M1 ${goodFrom}h6V24h-6z`);
  });

  test('shows an outage in each cell that it touches, over what was counted', () => {
    const outage = { began_at: iso(2.5), ended_at: iso(4) };
    const { cells, bars, label } = strip([quarter(3, 0, 2), quarter(5, 1, 1)], [outage]);
    expect(places(cells)).toEqual([2, 3, 4, 5]);
    expect(bars.outage.match(/M/g)?.length).toBe(3);
    expect(cells[1]).toMatchObject({ text: 'outage of the database, 0 good, 2 bad', href: '/issues?state=resolved' });
    expect(label).toBe('Last 24 hours: 1 good, 3 bad, failures in 2 of 96 quarter hours, an outage in 3 quarter hours');
  });

  test('is not drawn without counts', () => {
    expect(stripOf({ quarters: undefined, words: {}, trouble: '', hrefOf: () => '', outages: [], nowMs })).toBeNull();
  });
});

describe('the strip of a webhook', () => {
  const app = shared(startAgentApp);
  const viewer = shared(() => addPerson(app, 'viewer'));
  const webhook = shared(() => app.addWebhook());
  beforeAll(async () => {
    await send(webhook);
    const first = quartersSince(Date.now());
    const row = (place: number, counts: Partial<HistoryRow>) => ({
      webhookId: webhook.id,
      minuteMs: first + place * QUARTER_MS,
      ...counts,
    });
    const wasHour = { id: randomUUID(), machine: 'm', refused: 1, spooled: 0 };
    await addOutages(app.database, [
      {
        ...wasHour,
        began_at: new Date(first + 50.2 * QUARTER_MS).toISOString(),
        ended_at: new Date(first + 50.4 * QUARTER_MS).toISOString(),
      },
    ]);
    await addHistory(app.database, [
      row(40, { accepted: 5 }),
      row(41, { accepted: 5, rejected: 2 }),
      row(42, { accepted: 5, limited: 3 }),
      row(43, { disabled: 4 }),
    ]);
  });

  /** Links of the first strip on a page by the beginning of their title, without those of cells where nothing happened. */
  const linksOf = async (path: string) => {
    const page = await (await fetch(app.url + path, { headers: { cookie: viewer.cookie } })).text();
    const strip = page.split('<svg class="strip"')[1]!.split('</svg>')[0]!;
    const links = [
      ...strip.matchAll(/<a href="([^"]*)" tabindex="-1"><title>([^<]*), \d{4}-\d\d-\d\d \d\d:\d\d UTC</g),
    ];
    return links.map(([, href, title]) => [title!, href!.replaceAll('&amp;', '&').replace(/from=.*/, 'RANGE')]);
  };

  test('has on the list of webhooks links for the cells with trouble, and says the rest in words', async () => {
    const titles = (await linksOf('/webhooks')).map(([title]) => title);
    expect(titles).toEqual([
      '5 accepted, 2 rejected',
      '5 accepted, 3 rate limited',
      '0 accepted, 4 refused',
      'outage of the database',
    ]);
    const page = await (await fetch(`${app.url}/webhooks`, { headers: { cookie: viewer.cookie } })).text();
    expect(page).toMatch(
      /<span class="unseen">Last 24 hours: 1[56] accepted, 2 rejected, 3 rate limited, 4 refused, refusals in 3 of 96 quarter hours, an outage in 1 quarter hour</,
    );
  });
});
