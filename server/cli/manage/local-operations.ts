/**
 * The operations of one resource, composed for a command. Those without packages of their own are imported together: a
 * module for each resource would split the file of the serving process into a dozen more.
 */
import { join } from 'node:path';
import { builtFile } from '../../base/files/build.ts';
import { agentOperations } from '../../manage/api/agents/operations.ts';
import { alertOperations } from '../../manage/api/alerts/operations.ts';
import { auditOperations } from '../../manage/api/audit/operations.ts';
import { cellOperations } from '../../manage/api/cells/operations.ts';
import { deliveryOperations } from '../../manage/api/deliveries/operations.ts';
import { eventOperations } from '../../manage/api/events/operations.ts';
import { historyOperations } from '../../manage/api/history/operations.ts';
import { jobOperations } from '../../manage/api/jobs/operations.ts';
import type { Operations } from '../../manage/api/operations.ts';
import { rejectionOperations } from '../../manage/api/rejections/operations.ts';
import { tokenOperations } from '../../manage/api/tokens/operations.ts';
import { webhookOperations } from '../../manage/api/webhooks/operations.ts';
import { diagnose } from '../../model/signatures/diagnosis/diagnose.ts';
import { derivedKeys } from '../../store/secrets/keys.ts';
import type { CommandSession } from '../command/session.ts';

export type LocalParts = CommandSession & {
  /** Folder of the compiled thread entry points; undefined: that of this build. */
  workers: string | undefined;
};

interface Composed {
  operations: Partial<Operations>;
  close?: () => Promise<void>;
}

const resources: Readonly<Record<string, (parts: LocalParts) => Composed | Promise<Composed>>> = {
  webhooks: (parts) => {
    const { database, cells, changes, keys, settings } = parts;
    const key = derivedKeys(keys, 'webhook-secrets')[0]!;
    const sends = () => {
      throw new Error('a command sends no test request');
    };
    return {
      operations: {
        ...webhookOperations({ database, cells, changes, key }, settings, sends),
        ...ofCells(parts),
      },
    };
  },
  cells: (parts) => ({ operations: ofCells(parts) }),
  agents: ({ database, changes }) => ({ operations: agentOperations({ database, changes }) }),
  filters: async (parts) => {
    const [{ filterOperations }, judge] = await Promise.all([
      import('../../manage/api/filters/operations.ts'),
      openJudge(parts),
    ]);
    return { operations: filterOperations({ database: parts.database, judge }), close: () => judge.close() };
  },
  audit: ({ database }) => ({ operations: auditOperations(database) }),
  deliveries: ({ database }) => ({ operations: deliveryOperations(database) }),
  alerts: ({ database, settings }) => ({ operations: alertOperations({ database, settings }) }),
  history: ({ database }) => ({ operations: historyOperations(database) }),
  outages: ({ database }) => ({ operations: historyOperations(database) }),
  jobs: ({ database }) => ({ operations: jobOperations(database) }),
  events: async (parts) => {
    const { database, settings } = parts;
    const judge = await openJudge(parts);
    const operations = eventOperations({ database, judge }, settings.CLIENT_UNREAD_SECONDS);
    return { operations, close: () => judge.close() };
  },
  rejections: ({ database, changes, keys, settings }) => {
    const derived = derivedKeys(keys, 'webhook-secrets');
    return {
      operations: rejectionOperations({
        database,
        changes,
        key: derived[0]!,
        keys: derived,
        retentionDays: settings.RETENTION_DAYS,
        // A command serves no other requests, so the check needs no thread.
        diagnose: async (requests) => requests.map((request) => ({ diagnosis: diagnose(request) })),
      }),
    };
  },
  tokens: ({ database }) => ({ operations: tokenOperations(database) }),
  users: async ({ database, settings }) => {
    const [{ userOperations }, { Passwords }] = await Promise.all([
      import('../../manage/api/users/operations.ts'),
      import('../../manage/auth/password-hash.ts'),
    ]);
    const hosted = settings.AUTH_MODE === 'hosted';
    return {
      operations: userOperations({ database, passwords: new Passwords(), hosted, publicUrl: settings.PUBLIC_URL }),
    };
  },
};

function ofCells({ database, cells, changes, keys, settings }: LocalParts) {
  return cellOperations({ database, cells, changes, key: derivedKeys(keys, 'cells')[0]! }, settings);
}

/** Judges in a thread under the time limit of the server, so that the verdicts are those of the server. */
async function openJudge({ settings, workers = builtFile('workers') }: LocalParts) {
  const { FilterJudge } = await import('../../deliver/claims/judge.ts');
  return new FilterJudge(join(workers, 'filter.js'), settings.FILTER_TIMEOUT_MS);
}

/** @param resource as in the path of its routes, e.g. `webhooks` */
export function operationsOf(resource: string, parts: LocalParts): Composed | Promise<Composed> {
  const compose = resources[resource];
  if (compose === undefined) throw new Error(`commands do not call operations of ${resource}`);
  return compose(parts);
}
