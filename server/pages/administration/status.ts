/** GET /status: commits, processes, settings and state of this installation, and the results of `weir doctor`. */

import type { z } from 'zod';
import { weirCommand } from '../../base/command/name.ts';
import type { statusSchema } from '../../manage/api/status/status-operations.ts';
import { HISTORY_SECONDS, type History, type Second } from '../../manage/live/counters.ts';
import type { AlertTest } from '../../model/alerts.ts';
import { conditionTable } from '../../model/conditions.ts';
import { chart } from '../charts/chart.ts';
import { ownPage } from '../overview/issues.ts';
import { asProblem, type Call, type Page, type PageReply, type PageRequest, partOf, view } from '../page.ts';
import { bytes, plural } from '../show.ts';

/** Below REFRESH_TIMEOUT_MS of live.js. */
const WAIT_SECONDS = '3';
const ALERTS_SHOWN = '50';
const ENDED_SHOWN = '10';
const lineFrame = { width: 400, height: 112 };

/**
 * The page is rendered at once. Findings of the doctor that are not known yet are loaded afterwards, with `?checks=wait`.
 * @param history the last minutes of all processes of this machine
 */
export function statusPages(history: History): { status: Page; testAlert: Page } {
  /** @param feedback `address`: URL of the page after a form */
  const show = async (
    { call, query }: PageRequest,
    test: AlertTest | null,
    feedback: { address?: string } = {},
  ): Promise<PageReply> => {
    const wait_seconds = query.get('checks') === 'wait' ? WAIT_SECONDS : '0';
    const [shown, alerts, cells] = await Promise.all([
      call('showStatus', { query: { wait_seconds } }),
      alertsOf(call),
      partOf(call('listCells')),
    ]);
    if (shown.kind !== 'done') return asProblem(shown);
    const status = shown.body;
    const { seconds, latest } = history;
    const lines = (values: Record<string, (second: Second) => number | null>) =>
      chart(
        Object.fromEntries(Object.entries(values).map(([name, of]) => [name, seconds.map(of)])),
        HISTORY_SECONDS,
        lineFrame,
      );
    const data = {
      weir: weirCommand(),
      status,
      test,
      alerts,
      cells: cells?.items ?? [],
      processes: processesText(status),
      deathFix: conditionTable.process_died.fix,
      diagnosis: diagnosisText(status),
      changed: status.settings.filter(isChanged),
      live: latest,
      requests: lines({
        accepted: (second) => perSecond(second, second.accepted),
        rejected: (second) => perSecond(second, second.rejected),
        'rate limited': (second) => perSecond(second, second.limited),
      }),
      commit: lines({ median: (second) => second.commit_p50_ms, '99th percentile': (second) => second.commit_p99_ms }),
      queue: lines({ waiting: (second) => second.queue_events }),
    };
    return view('status', 'Status', data, feedback);
  };
  return {
    status: (request) => show(request, null),
    testAlert: async (request) => {
      const tested = await request.call('testAlert');
      return tested.kind === 'done' ? show(request, tested.body, { address: '/status' }) : asProblem(tested);
    },
  };
}

/** Reads the newest active alerts, then the newest that have ended. Null when they could not be read. */
async function alertsOf(call: Call) {
  const [active, ended] = await Promise.all([
    partOf(call('listAlerts', { query: { active: 'true', limit: ALERTS_SHOWN } })),
    partOf(call('listAlerts', { query: { active: 'false', limit: ENDED_SHOWN } })),
  ]);
  const all = active && ended && [...active.items, ...ended.items];
  return all?.map((alert) => ({ ...alert, ...ownPage(alert.url) }));
}

function perSecond({ duration_ms }: Second, requests: number): number {
  return (requests * 1_000) / Math.max(1, duration_ms);
}

type Status = z.output<typeof statusSchema>;

/** A setting that is not at its default. */
export function isChanged({ secret, is_set, value, default: usual }: Status['settings'][number]): boolean {
  return is_set && (secret || value !== usual);
}

/** The status as text for support requests: processes, problems and changed settings. Contains no secret. */
export function diagnosisText(status: Status): string {
  const { versions, database, schema, partitions, rate_limit_store: store, doctor } = status;
  const notes = doctor.checks.filter(({ state }) => state !== 'ok');
  const changed = status.settings.filter((one) => !one.secret && isChanged(one));
  return [
    `Weir ${versions.weir} (${versions.commit}), Node.js ${versions.node}, uWebSockets.js ${versions.uwebsockets}, Postgres ${versions.postgres} (${database.kind})`,
    `Since ${status.started_at}: ${processesText(status)}, ${status.process_deaths.total} died`,
    ...status.process_deaths.newest.map(({ at, pid, reason }) => `  ${at}, process ${pid}: ${reason}`),
    `Database: ${bytes(database.bytes)}, ${database.connections} of ${database.connections_max} connections`,
    `Schema: version ${schema.version}${schema.pending.map((name) => `, missing ${name}`).join('')}`,
    `Days: ${partitions === null ? 'none' : `${partitions.first} to ${partitions.last}`}, kept for ${status.retention_days}`,
    `Rate limits: ${store.backend}, ${store.state}`,
    `Doctor: ${doctor.state}, ${plural(doctor.checks.length, 'check')}, ${notes.length} not ok`,
    ...notes.map(({ name, state, finding, fix }) => `  ${state}, ${name}: ${finding}${fix ? `. Fix: ${fix}` : ''}`),
    'Settings changed from the default:',
    ...changed.map(({ name, value }) => `  ${name}=${value}`),
  ].join('\n');
}

/** `2 processes serving, 1 process draining` */
function processesText({ processes }: Pick<Status, 'processes'>): string {
  const counts = new Map<string, number>();
  for (const { state } of processes) counts.set(state, (counts.get(state) ?? 0) + 1);
  return (
    [...counts].map(([state, count]) => `${plural(count, 'process', 'processes')} ${state}`).join(', ') ||
    'no process yet'
  );
}
