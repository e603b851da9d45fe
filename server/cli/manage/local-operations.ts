/**
 * The operations of one resource, composed for a command. Those without packages of their own are imported together: a
 * module for each resource would split the file of the serving process into a dozen more.
 */
import { join } from 'node:path';
import { agentOperations } from '../../api/agents/operations.ts';
import { alertOperations } from '../../api/alerts/operations.ts';
import { auditOperations } from '../../api/audit/operations.ts';
import { deliveryOperations } from '../../api/deliveries/operations.ts';
import { historyOperations } from '../../api/history/operations.ts';
import { jobOperations } from '../../api/jobs/operations.ts';
import type { Operations } from '../../api/operations.ts';
import { webhookOperations } from '../../api/webhooks/operations.ts';
import type { Changes } from '../../db/announce.ts';
import { builtFile } from '../../files/build.ts';
import { derivedKeys } from '../../secrets/keys.ts';
import type { CommandSession } from '../session.ts';

type Parts = CommandSession & {
  changes: Changes;
  /** Folder of the compiled thread entry points; undefined: that of this build. */
  workers: string | undefined;
};

interface Composed {
  operations: Partial<Operations>;
  close?: () => Promise<void>;
}

const resources: Readonly<Record<string, (parts: Parts) => Composed | Promise<Composed>>> = {
  webhooks: ({ database, changes, keys, settings }) => {
    const key = derivedKeys(keys, 'webhook-secrets')[0]!;
    return {
      operations: webhookOperations({ database, changes, key }, settings, () => {
        throw new Error('a command sends no test request');
      }),
    };
  },
  agents: ({ database, changes }) => {
    return { operations: agentOperations({ database, changes }) };
  },
  filters: async ({ database, settings, workers = builtFile('workers') }) => {
    const [{ filterOperations }, { FilterJudge }] = await Promise.all([
      import('../../api/filters/operations.ts'),
      import('../../filters/judge.ts'),
    ]);
    // In a thread under the time limit of the server, so that the verdicts are those of the server.
    const judge = new FilterJudge(join(workers, 'filter.js'), settings.FILTER_TIMEOUT_MS);
    return { operations: filterOperations({ database, judge }), close: () => judge.close() };
  },
  audit: ({ database }) => {
    return { operations: auditOperations(database) };
  },
  deliveries: ({ database }) => {
    return { operations: deliveryOperations(database) };
  },
  alerts: ({ database, settings }) => {
    return { operations: alertOperations({ database, settings }) };
  },
  history: ({ database }) => {
    return { operations: historyOperations(database) };
  },
  jobs: ({ database }) => {
    return { operations: jobOperations(database) };
  },
};

/** @param resource as in the path of its routes, e.g. `webhooks` */
export function operationsOf(resource: string, parts: Parts): Composed | Promise<Composed> {
  const compose = resources[resource];
  if (compose === undefined) throw new Error(`commands do not call operations of ${resource}`);
  return compose(parts);
}
