/** The report of the scenario `drain`. */
import type { Goal, Outcome, Ratio } from './outcome.ts';
import { formatSpread, ratioByRound, spreadOf } from './stats.ts';

/** Deliveries a claim, and the concurrency of the client library. */
export const SIZES = [1, 10, 100] as const;
type Size = (typeof SIZES)[number];
/** Processor time of a delivery in microseconds. The client is the process of the bench; for the least queue it is the whole queue. */
export const parts = ['postgres', 'weir', 'client'] as const;
type Part = (typeof parts)[number];

export interface Turn {
  perSecond: number;
  us: Record<Part, number>;
}

type Way = 'least queue' | 'HTTP' | 'one request' | 'client library' | 'many';

/** One contestant of the rotation, and its turns so far. */
export interface Contestant {
  way: Way;
  /** Deliveries a claim. */
  size: number;
  name: string;
  turns: Turn[];
}

export function reportDrain(contestants: readonly Contestant[], notes: string[], faults: string[]): Outcome {
  const find = (way: Way, size?: Size) =>
    contestants.find((one) => one.way === way && (size ?? one.size) === one.size)!;
  const rates = ({ turns }: Contestant) => turns.map(({ perSecond }) => perSecond);
  const usOf = ({ turns }: Contestant, ...of: Part[]) =>
    turns.map(({ us }) => of.reduce((sum, part) => sum + us[part], 0));
  const overLeast = (size: Size, way: Way): Ratio => ({
    of: `${find(way, size).name}, CPU of Weir and Postgres`,
    to: 'least queue, with its client',
    values: ratioByRound(
      usOf(find(way, size), 'postgres', 'weir'),
      usOf(find('least queue', size), 'postgres', 'client'),
    ),
  });
  const ways = ['HTTP', 'one request'] as const;
  const ratios = SIZES.flatMap((size) => ways.map((way) => overLeast(size, way)));
  const median = (values: readonly number[]) => spreadOf(values).median;
  const ratio = (size: Size, below: number): Goal[] =>
    ways.map((way) => ({
      what: `CPU of a claim and ack of ${size} over the least queue, in ${way === 'HTTP' ? 'two requests' : 'one request'}:`,
      value: median(overLeast(size, way).values),
      unit: '',
      below,
    }));
  const rate = (contestant: Contestant, atLeast: number): Goal => ({
    what: `${contestant.name}:`,
    value: median(rates(contestant)),
    unit: 'deliveries/s',
    atLeast,
  });
  const job = (size: Size, below: number): Goal => ({
    what: `CPU of a delivery, all parts, client library, concurrency ${size}:`,
    value: median(usOf(find('client library', size), ...parts)),
    unit: 'us',
    below,
  });
  return {
    tables: [
      {
        header: ['', 'deliveries/s', ...parts.map((part) => `${part}, us`), 'all, us'],
        rows: contestants.map((one) => [
          one.name,
          formatSpread(rates(one)),
          ...parts.map((part) => formatSpread(usOf(one, part))),
          formatSpread(usOf(one, ...parts)),
        ]),
      },
    ],
    measures: contestants.flatMap((one) => [
      { name: one.name, unit: 'deliveries/s', values: rates(one) },
      ...parts.map((part) => ({ name: `${one.name}: ${part}`, unit: 'us', values: usOf(one, part) })),
    ]),
    ratios,
    goals: [
      ...ratio(1, 1.8),
      ...ratio(10, 1.6),
      ...ratio(100, 1.6),
      {
        what: "Weir's own share of a claim and ack of 1:",
        value: median(usOf(find('HTTP', 1), 'weir')),
        unit: 'us',
        below: 800,
      },
      rate(find('client library', 1), 450),
      rate(find('client library', 10), 5_000),
      rate(find('client library', 100), 12_000),
      job(10, 150),
      job(100, 150),
      rate(find('many'), 15_000),
    ],
    notes,
    faults,
  };
}
