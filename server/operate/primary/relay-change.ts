/** How the primary passes on a change that another machine, a command or a process made, and a cancelled call of MCP. */
import type { Cells } from '../../store/cells/cells.ts';
import type { Members } from './members.ts';
import type { PrimarySpool } from './spool.ts';

/** Applies a change in the primary, then in the processes, also when the primary could not read the cells: then it rejects. */
export function relayChange(
  cells: Pick<Cells, 'changed'>,
  spool: Pick<PrimarySpool, 'webhooksChanged'>,
  members: Pick<Members, 'applyEverywhere'>,
): (payload: string) => Promise<void> {
  return async (payload) => {
    if (!payload.startsWith('call:')) spool.webhooksChanged();
    try {
      if (payload.startsWith('cell:')) await cells.changed();
    } finally {
      await members.applyEverywhere(payload);
    }
  };
}
