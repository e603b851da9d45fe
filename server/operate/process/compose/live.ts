/** The parts of a process for the live counters and the status of the installation. */
import { keptFor } from '../../../base/time/shared-check.ts';
import { alertOperations, issueOperations } from '../../../manage/api/issues/issue-operations.ts';
import type { AskDoctor } from '../../../manage/api/status/doctor.ts';
import { liveOperations, statusOperations } from '../../../manage/api/status/status-operations.ts';
import { History, type Live, type Sample } from '../../../manage/live/counters.ts';
import { LoopLag, residentMeter, type Sampled, sampleOf } from '../../../manage/live/sample.ts';
import { Streams } from '../../../manage/live/streams.ts';
import { countOpenIssues } from '../../../store/queries/alerts/issues.ts';
import type { Base } from '../base.ts';
import type { composeIngest } from './ingest.ts';

/** A process of each machine brings the issues up to date this often. */
const ISSUES_EVERY_MS = 15_000;
/** How long the number of open issues is kept, and the greatest that is counted. */
const COUNT_VALID_MS = 1_000;
const COUNTED_MAX = 1_000;

/** Builds these parts. `history` is that of the last minutes, from the primary. `commitFailure` returns why commits fail. */
export function composeLive(
  { settings, conninfo, metrics, database, cells, limiter, spoolFolder, history: past }: Base,
  { commitFailure }: Pick<ReturnType<typeof composeIngest>, 'commitFailure'>,
  askDoctor: AskDoctor,
) {
  const history = new History(past);
  const rateLimitStore = () => limiter.health();
  const streams = new Streams({
    database,
    history,
    clientsMax: settings.STREAMS_MAX,
    userClientsMax: settings.USER_STREAMS_MAX,
    onCut: () => metrics.add('weir_streams_dropped_total'),
  });
  const issues = issueOperations({
    settings,
    database,
    cells,
    history,
    commitFailure,
    spoolFolder: spoolFolder ?? null,
  });
  const countIssues = keptFor(COUNT_VALID_MS, () => countOpenIssues(database, COUNTED_MAX).catch(() => 0));
  let open: number | undefined;
  /** Monotonic clock, in milliseconds. */
  let issuesDueMs = 0;
  const lag = new LoopLag();
  metrics.gauge('weir_streams', () => streams.size);
  metrics.gauge('weir_cells_away', () => cells.all().filter(({ trouble }) => trouble !== null).length, 'max');
  metrics.gauge('weir_resident_bytes', residentMeter());
  metrics.gauge('weir_event_loop_lag_seconds', () => lag.largest / 1000, 'max');

  return {
    history,
    operations: {
      ...liveOperations({ history, streams }),
      ...issues.operations,
      ...alertOperations({ settings, database }),
      ...statusOperations({ settings, conninfo, database, history, askDoctor, rateLimitStore }),
    },
    streams,
    countIssues: () => countIssues(Date.now()),
    /** Records the counts of the last second, as the primary summed them. */
    recordSecond: (summed: Live) => {
      const live = { ...summed, issues: open };
      history.add(live);
      streams.live(live);
      const nowMs = performance.now();
      const isFirst = live.processes.find(({ state }) => state === 'serving')?.pid === process.pid;
      if (isFirst && nowMs >= issuesDueMs) {
        issuesDueMs = nowMs + ISSUES_EVERY_MS;
        // While the database is away, its outage is known without the list.
        void issues.updateIssues().catch(() => {});
      }
      if (streams.size > 0)
        void countIssues(Date.now()).then((count) => {
          open = count;
        });
    },
    sample: (of: Omit<Sample, Sampled>): Sample => ({ ...of, ...sampleOf(metrics, lag) }),
    close: () => {
      streams.close();
      lag.stop();
    },
  };
}
