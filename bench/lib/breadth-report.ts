/** The report of the scenario `breadth`. */
import { type Looks, type Rest, reportLooks } from './looks.ts';
import type { Outcome } from './outcome.ts';
import { formatNumber, formatSpread, ratioByRound, spreadOf } from './stats.ts';
import { faultsOf, totalUs, type Window } from './window.ts';

const PAGE_MS = 100;
export const STATEMENT_MS = 1_000;

/** How a Weir started, several times. */
export interface Started {
  name: string;
  startMs: number[];
  startMb: number[];
}

interface Measured {
  /** What was filled, as a sentence. */
  size: string;
  servers: readonly Started[];
  loadedMb: readonly number[];
  loads: readonly { name: string; windows: readonly Window[] }[];
  clients: readonly { name: string; looks: Looks }[];
  looks: Looks;
  rest: readonly Rest[];
  slow: number;
}

/** Each list begins with the empty Weir. */
export function reportBreadth({ size, servers, loadedMb, loads, clients, looks, rest, slow }: Measured): Outcome {
  const shown = (path: string) => path.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, '{id}');
  const pages = reportLooks(looks.timed, shown, PAGE_MS);
  const claims = reportLooks(new Map(clients.flatMap(({ looks }) => [...looks.timed])), shown, PAGE_MS);
  const rates = loads.map(({ windows }) => windows.map(({ requestsPerSecond }) => requestsPerSecond));
  const ratioOf = (place: number) => ratioByRound(rates[place]!, rates[0]!);
  const claimMs = clients.map(({ looks }) => [...looks.timed.values()][0]!.map(({ ms }) => ms));
  return {
    tables: [
      {
        header: ['start', 'ms', 'memory of a process, MB', 'after the loads, MB'],
        rows: servers.map(({ name, startMs, startMb }, i) => [
          name,
          formatSpread(startMs),
          formatSpread(startMb),
          formatNumber(loadedMb[i]!),
        ]),
      },
      {
        header: ['256 connections', 'requests/s', 'event loop, us', 'Postgres, us', 'all, us'],
        rows: loads.map(({ name, windows }) => [
          name,
          formatSpread(windows.map(({ requestsPerSecond }) => requestsPerSecond)),
          formatSpread(windows.map(({ us }) => us.eventLoop)),
          formatSpread(windows.map(({ us }) => us.postgres)),
          formatSpread(windows.map(totalUs)),
        ]),
      },
      claims.table,
      pages.table,
      {
        header: ['a minute without requests, CPU in ms', 'process', 'primary', 'Postgres'],
        rows: rest.map(({ name, processMs, primaryMs, postgresMs }) => [
          name,
          ...[processMs, primaryMs, postgresMs].map(formatNumber),
        ]),
      },
    ],
    measures: [...claims.measures, ...pages.measures],
    ratios: [
      { of: loads[1]!.name, to: loads[0]!.name, values: ratioOf(1) },
      { of: loads[2]!.name, to: loads[0]!.name, values: ratioOf(2) },
    ],
    goals: [
      ...[1, 2].map((place) => ({
        what: `requests/s, ${loads[place]!.name} over empty:`,
        value: spreadOf(ratioOf(place)).median,
        unit: '',
        atLeast: 0.9,
      })),
      ...[1, 2].map((place) => ({
        what: `rate, ${clients[place]!.name}, over empty:`,
        value: spreadOf(claimMs[0]!).median / spreadOf(claimMs[place]!).median,
        unit: '',
        atLeast: 0.8,
      })),
      ...pages.goals,
      { what: `statements above ${STATEMENT_MS} ms:`, value: slow, unit: '', below: 1 },
    ],
    notes: [`${size} Each Weir has 1 process on a Postgres of its own; the load generator shares the cores.`],
    faults: loads.flatMap(({ name, windows }) => windows.flatMap((window) => faultsOf(name, window))),
  };
}
