/** Carries out the orders of commands in the primary. */
import { build } from '../../base/files/build.ts';
import type { Settings } from '../../base/settings/read.ts';
import type { Database } from '../../store/connect/pool.ts';
import { checkConnectionBudget } from '../../store/open.ts';
import type { Members } from './members.ts';
import type { Control, Order, Refused } from './order.ts';
import type { RollingRestarts } from './restart.ts';
import type { Supervisor } from './supervisor.ts';

interface ControlParts {
  supervisor: Supervisor;
  members: Members;
  restarts: RollingRestarts;
  settings: () => Settings;
  database: Database;
}

export async function carryOut(order: Order, parts: ControlParts): Promise<Control | Refused> {
  const { supervisor, members, restarts } = parts;
  try {
    if (typeof order === 'number') await setProcesses(order, parts);
    const requested = order === 'reload' ? restarts.request() : undefined;
    return {
      primary: build(),
      wanted: supervisor.wanted,
      processes: members.all().map(({ pid = 0, state, build, livedMs }) => {
        return { pid, state, build, started_at: new Date(Date.now() - livedMs).toISOString() };
      }),
      ...(requested === undefined ? {} : { requested }),
      restart: restarts.last,
    };
  } catch (error) {
    return { refused: (error as Error).message };
  }
}

/** Rejects with OperatorError when the database does not allow the connections of more processes. */
async function setProcesses(wanted: number, { supervisor, settings, database }: ControlParts): Promise<void> {
  if (wanted > supervisor.wanted) await checkConnectionBudget(database, { ...settings(), WORKERS: wanted });
  supervisor.setWanted(wanted);
}
