/** The report of the scenario `breadth`. */
import { type Looks, reportLooks } from './looks.ts';
import type { Outcome } from './outcome.ts';
import { formatNumber, formatSpread, ratioByRound } from './stats.ts';
import { faultsOf, totalUs, type Window } from './window.ts';

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
  slow: number;
}

/** Each list begins with the empty Weir. */
export function reportBreadth({ size, servers, loadedMb, loads, clients, looks, slow }: Measured): Outcome {
  const shown = (path: string) => path.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, '{id}');
  const pages = reportLooks(looks.timed, shown);
  const claims = reportLooks(new Map(clients.flatMap(({ looks }) => [...looks.timed])), shown);
  const rates = loads.map(({ windows }) => windows.map(({ requestsPerSecond }) => requestsPerSecond));
  const ratioOf = (place: number) => ratioByRound(rates[place]!, rates[0]!);
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
    ],
    measures: [...claims.measures, ...pages.measures],
    ratios: [
      { of: loads[1]!.name, to: loads[0]!.name, values: ratioOf(1) },
      { of: loads[2]!.name, to: loads[0]!.name, values: ratioOf(2) },
    ],
    notes: [
      `${slow} statements took more than ${STATEMENT_MS} ms.`,
      `${size} Each Weir has 1 process on a Postgres of its own; the load generator shares the cores.`,
    ],
    faults: loads.flatMap(({ name, windows }) => windows.flatMap((window) => faultsOf(name, window))),
  };
}
